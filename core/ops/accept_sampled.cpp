#include "core/ops/accept_sampled.h"

#include "core/ops/activations.h"
#include "core/ops/sample_tokens.h"

namespace foretoken {

const OpSchema& AcceptSampled::schema() {
  static const OpSchema schema = OpSchema("accept_sampled")
                                     .in("logits", {"T", "V"}, kF32Only)
                                     .strided()
                                     .in("weight_sums", {"T"}, kI64Only)
                                     .in("token_ids", {"T"}, kI32Only)
                                     .in("row_slots", {"T"}, kI32Only)
                                     .in("positions", {"T"}, kI32Only)
                                     .in("query_start_loc", {"B+1"}, kI32Only)
                                     .in("block_rows", {"B"}, kI32Only)
                                     .in("candidate_ids", {"K", "Q", "C"}, kI32Only)
                                     .in("candidate_weights", {"K", "Q", "C"}, kI64Only)
                                     .in("reals", {"S", "6"}, kF32Only)
                                     .in("integers", {"S", "3"}, kI32Only)
                                     .in("seeds", {"S"}, kI64Only)
                                     .in_out("picks", {"T"}, kI32Only)
                                     .out("num_accepted", {"B"}, kI32Only);
  return schema;
}

void AcceptSampled::validate() const { check_draft_candidates("accept_sampled", candidate_ids.dim(2)); }

}  // namespace foretoken
