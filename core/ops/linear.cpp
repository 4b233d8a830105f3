#include "core/ops/linear.h"

#include <string>

#include "core/error.h"
#include "core/ops/activations.h"

namespace foretoken {

void Linear::validate() const { check_weight("linear: weight", w); }

void LinearSiluMul::validate() const {
  check_weight("linear_silu_mul: gate", gate);
  check_weight("linear_silu_mul: up", up);
  if (gate.format != up.format || gate.block_rows != up.block_rows || gate.scale.shape() != up.scale.shape()) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "gate and up differ in format",
                                              .where = "linear_silu_mul",
                                              .expected = std::string(to_string(gate.format)),
                                              .got = std::string(to_string(up.format))});
  }
}

void LinearArgmax::validate() const { check_weight("linear_argmax: weight", w); }

const OpSchema& Linear::schema() {
  static const OpSchema schema = OpSchema("linear")
                                     .in("x", {"T", "K"}, kActivationDtypes)
                                     .strided()
                                     .in("weight", {"N", "K"}, kLinearWeightDtypes)
                                     .in("weight_scale", {"..."}, kScaleDtypes)
                                     .optional()
                                     .in("weight_global_scale", {"..."}, kF32Only)
                                     .optional()
                                     .out("out", {"T", "N"}, kActivationDtypes)
                                     .strided()
                                     .workspace("workspace")
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

const OpSchema& LinearSiluMul::schema() {
  static const OpSchema schema = OpSchema("linear_silu_mul")
                                     .in("x", {"T", "K"}, kActivationDtypes)
                                     .strided()
                                     .in("gate", {"N", "K"}, kLinearWeightDtypes)
                                     .in("gate_scale", {"..."}, kScaleDtypes)
                                     .optional()
                                     .in("gate_global_scale", {"..."}, kF32Only)
                                     .optional()
                                     .in("up", {"N", "K"}, kLinearWeightDtypes)
                                     .in("up_scale", {"..."}, kScaleDtypes)
                                     .optional()
                                     .in("up_global_scale", {"..."}, kF32Only)
                                     .optional()
                                     .out("out", {"T", "N"}, kActivationDtypes)
                                     .strided()
                                     .workspace("workspace")
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

const OpSchema& LinearArgmax::schema() {
  static const OpSchema schema = OpSchema("linear_argmax")
                                     .in("x", {"T", "K"}, kActivationDtypes)
                                     .strided()
                                     .in("weight", {"N", "K"}, kLinearWeightDtypes)
                                     .in("weight_scale", {"..."}, kScaleDtypes)
                                     .optional()
                                     .in("weight_global_scale", {"..."}, kF32Only)
                                     .optional()
                                     .in("token_map", {"N"}, kI32Only)
                                     .optional()
                                     .out("token_ids", {"T"}, kI32Only)
                                     .out("logprobs", {"T"}, kF32Only)
                                     .optional()
                                     .workspace("workspace")
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
