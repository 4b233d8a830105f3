#include "core/ops/linear.h"

#include <string>

#include "core/error.h"
#include "core/ops/activations.h"

namespace foretoken {
namespace {

void fail(const char* op, const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, std::string(op) + ": " + message);
}

/// Whether the scales that a format needs are there and have the right shape.
void check_weight(const char* op, const LinearWeight& w) {
  const int64_t n = w.out_features();
  const int64_t k = w.in_features();
  Shape expected;
  switch (w.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16: {
      if (w.scale || w.global_scale) fail(op, "a " + std::string(to_string(w.format)) + " weight takes no scales");
      const DType dtype = w.format == WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
      if (w.weight.dtype() != dtype)
        fail(op, "the weight says " + std::string(to_string(w.format)) + " but is " + std::string(to_string(w.weight.dtype())));
      return;
    }
    case WeightFormat::kFp8Row:
      if (w.scale && w.scale.shape() == Shape{1}) return;
      expected = Shape{n};
      break;
    case WeightFormat::kFp8Block: expected = Shape{(n + 127) / 128, (k + 127) / 128}; break;
    case WeightFormat::kNvfp4:
      if (!w.global_scale) fail(op, "an nvfp4 weight needs a global scale");
      expected = Shape{n, k / 16};
      break;
  }
  if (!w.scale || !(w.scale.shape() == expected)) {
    fail(op, "the scale of a " + std::string(to_string(w.format)) + " weight " + w.weight.shape().to_string() + " must be " +
                 expected.to_string() + ", it is " + (w.scale ? w.scale.shape().to_string() : "absent"));
  }
}

}  // namespace

void Linear::validate() const { check_weight("linear", w); }

void LinearSiluMul::validate() const {
  check_weight("linear_silu_mul", gate);
  check_weight("linear_silu_mul", up);
  if (gate.format != up.format) fail("linear_silu_mul", "gate and up have different formats");
}

void LinearArgmax::validate() const { check_weight("linear_argmax", w); }

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
                                     .out("token_ids", {"T"}, kI32Only)
                                     .out("logprobs", {"T"}, kF32Only)
                                     .optional()
                                     .workspace("workspace")
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
