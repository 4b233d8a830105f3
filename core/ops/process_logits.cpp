#include "core/ops/process_logits.h"

#include <string>

#include "core/error.h"
#include "core/ops/activations.h"

namespace foretoken {

const OpSchema& ProcessLogits::schema() {
  static const OpSchema schema = OpSchema("process_logits")
                                     .in_out("logits", {"T", "V"}, kF32Only)
                                     .strided()
                                     .in("row_slots", {"T"}, kI32Only)
                                     .in("positions", {"T"}, kI32Only)
                                     .in("reals", {"S", "6"}, kF32Only)
                                     .in("integers", {"S", "3"}, kI32Only)
                                     .in("bias_ids", {"S", "M"}, kI32Only)
                                     .in("bias_values", {"S", "M"}, kF32Only)
                                     .in("stop_ids", {"S", "E"}, kI32Only)
                                     .in("counts", {"S", "V"}, kI32Only)
                                     .in("history_ids", {"N"}, kI32Only)
                                     .in("history", {"T", "2"}, kI32Only)
                                     .in("mask_rows", {"T"}, kI32Only)
                                     .optional()
                                     .in("masks", {"R", "W"}, kI32Only)
                                     .optional()
                                     .tolerance(DType::kF32, 0.0);
  return schema;
}

void ProcessLogits::validate() const {
  if (logits.dim(1) > kMaxSampledVocab) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "process_logits: tokens of the vocabulary",
                                              .expected = "at most " + std::to_string(kMaxSampledVocab),
                                              .got = std::to_string(logits.dim(1))});
  }
  if (mask_rows.is_absent() != masks.is_absent()) {
    throw Error(ErrorCode::kInvalidArgument, "process_logits: mask_rows and masks come together");
  }
  const int64_t words = (logits.dim(1) + 31) / 32;
  if (masks && masks.dim(1) != words) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {.what = "process_logits: words of a mask", .expected = std::to_string(words), .got = std::to_string(masks.dim(1))});
  }
}

const OpSchema& CountTokens::schema() {
  static const OpSchema schema = OpSchema("count_tokens")
                                     .in("slots", {"N"}, kI32Only)
                                     .in("token_ids", {"N"}, kI32Only)
                                     .in_out("counts", {"S", "V"}, kI32Only);
  return schema;
}

}  // namespace foretoken
