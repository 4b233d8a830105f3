#include "core/ops/accept.h"

#include "core/ops/activations.h"

namespace foretoken {
const OpSchema& AcceptGreedy::schema() {
  static const OpSchema schema = OpSchema("accept_greedy")
                                     .in("draft_token_ids", {"B", "K"}, kI32Only)
                                     .strided()
                                     .in("target_token_ids", {"B", "K+1"}, kI32Only)
                                     .strided()
                                     .out("num_accepted", {"B"}, kI32Only);
  return schema;
}

const OpSchema& OverrideTokens::schema() {
  static const OpSchema schema = OpSchema("override_tokens").in("forced", {"K"}, kI32Only).in_out("token_ids", {"K"}, kI32Only);
  return schema;
}

}  // namespace foretoken
