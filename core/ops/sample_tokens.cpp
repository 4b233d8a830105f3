#include "core/ops/sample_tokens.h"

#include <string>

#include "core/error.h"
#include "core/ops/activations.h"

namespace foretoken {

const OpSchema& SampleTokens::schema() {
  static const OpSchema schema = OpSchema("sample_tokens")
                                     .in("logits", {"T", "V"}, kF32Only)
                                     .strided()
                                     .in("row_slots", {"T"}, kI32Only)
                                     .in("positions", {"T"}, kI32Only)
                                     .in("reals", {"S", "6"}, kF32Only)
                                     .in("seeds", {"S"}, kI64Only)
                                     .out("token_ids", {"T"}, kI32Only)
                                     .out("weight_sums", {"T"}, kI64Only);
  return schema;
}

const OpSchema& SampleDrafts::schema() {
  static const OpSchema schema = OpSchema("sample_drafts")
                                     .in("logits", {"B", "V"}, kF32Only)
                                     .strided()
                                     .in("row_slots", {"B"}, kI32Only)
                                     .in("positions", {"B"}, kI32Only)
                                     .in("reals", {"S", "6"}, kF32Only)
                                     .in("integers", {"S", "3"}, kI32Only)
                                     .in("seeds", {"S"}, kI64Only)
                                     .out("token_ids", {"B"}, kI32Only)
                                     .out("candidate_ids", {"B", "C"}, kI32Only)
                                     .out("candidate_weights", {"B", "C"}, kI64Only);
  return schema;
}

void SampleDrafts::validate() const { check_draft_candidates("sample_drafts", candidate_ids.dim(1)); }

void check_draft_candidates(const char* op, int64_t count) {
  if (count >= 1 && count <= kMaxDraftCandidates) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = std::string(op) + ": candidates of a draft",
                                            .expected = "1 .. " + std::to_string(kMaxDraftCandidates),
                                            .got = std::to_string(count)});
}

}  // namespace foretoken
