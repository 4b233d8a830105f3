#include "core/ops/gated_delta_rule.h"

#include <string>

#include "core/error.h"
#include "core/ops/activations.h"

namespace foretoken {
void CausalConv1dSilu::validate() const {
  if (update == StateUpdate::kRecord && conv_record.is_absent()) {
    throw Error(ErrorCode::kInvalidArgument, "causal_conv1d_silu: recording needs conv_record");
  }
  if (!num_commit.is_absent() && conv_record.is_absent()) {
    throw Error(ErrorCode::kInvalidArgument, "causal_conv1d_silu: num_commit needs conv_record");
  }
}

void GatedDeltaRule::validate() const {
  const int64_t value_dims = state.dim(1) * state.dim(3);
  const int64_t key_dims = qkv.dim(1) - value_dims;
  if (key_dims <= 0 || key_dims % (2 * state.dim(2)) != 0 || state.dim(1) % num_key_heads() != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "gated_delta_rule: channels of qkv",
                 .expected = "2 * nk * " + std::to_string(state.dim(2)) + " + " + std::to_string(value_dims) +
                             " with nk dividing " + std::to_string(state.dim(1)),
                 .got = std::to_string(qkv.dim(1))});
  }
  const bool has_records = !key_record.is_absent() && !delta_record.is_absent() && !decay_record.is_absent();
  if (update == StateUpdate::kRecord && !has_records) {
    throw Error(ErrorCode::kInvalidArgument, "gated_delta_rule: recording needs key_record, delta_record and decay_record");
  }
  if (!num_commit.is_absent() && !has_records) {
    throw Error(ErrorCode::kInvalidArgument, "gated_delta_rule: num_commit needs key_record, delta_record and decay_record");
  }
  if (z.is_absent() != norm.is_absent()) {
    throw Error(ErrorCode::kInvalidArgument, "gated_delta_rule: z and norm go together");
  }
}

const OpSchema& CausalConv1dSilu::schema() {
  static const OpSchema schema = OpSchema("causal_conv1d_silu")
                                     .in("x", {"T", "C"}, kActivationDtypes)
                                     .strided()
                                     .in("weight", {"C", "4"}, kF32Only)
                                     .in("query_start_loc", {"B+1"}, kI32Only)
                                     .in("state_slots", {"B"}, kI32Only)
                                     .in("num_commit", {"B"}, kI32Only)
                                     .optional()
                                     .in_out("conv_state", {"S", "C", "3"}, kF32Only)
                                     .in_out("conv_record", {"S", "R", "C"}, kF32Only)
                                     .optional()
                                     .out("out", {"T", "C"}, kActivationDtypes)
                                     .strided()
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

const OpSchema& GatedDeltaRule::schema() {
  static const OpSchema schema = OpSchema("gated_delta_rule")
                                     .in("qkv", {"T", "C"}, kActivationDtypes)
                                     .strided()
                                     .in("b", {"T", "nv"}, kActivationDtypes)
                                     .strided()
                                     .in("a", {"T", "nv"}, kActivationDtypes)
                                     .strided()
                                     .in("A_log", {"nv"}, kF32Only)
                                     .in("dt_bias", {"nv"}, kF32Only)
                                     .in("query_start_loc", {"B+1"}, kI32Only)
                                     .in("state_slots", {"B"}, kI32Only)
                                     .in("num_commit", {"B"}, kI32Only)
                                     .optional()
                                     .in_out("state", {"S", "nv", "dk", "dv"}, kF32Only)
                                     .in_out("key_record", {"S", "R", "nv", "dk"}, kF32Only)
                                     .optional()
                                     .in_out("delta_record", {"S", "R", "nv", "dv"}, kF32Only)
                                     .optional()
                                     .in_out("decay_record", {"S", "R", "nv"}, kF32Only)
                                     .optional()
                                     .in("z", {"T", "nv", "dv"}, kActivationDtypes)
                                     .strided()
                                     .optional()
                                     .in("norm", {"dv"}, kF32Only)
                                     .optional()
                                     .out("out", {"T", "nv", "dv"}, kActivationDtypes)
                                     .strided()
                                     .workspace("workspace")
                                     .tolerance(DType::kF32, 1e-5)
                                     .tolerance(DType::kBF16, 1e-2);
  return schema;
}

}  // namespace foretoken
