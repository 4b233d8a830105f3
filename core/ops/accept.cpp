#include "core/ops/accept.h"

#include "core/ops/activations.h"

namespace foretoken {

const OpSchema& SelectTokens::schema() {
  static const OpSchema schema = OpSchema("select_tokens")
                                     .in("host_token_ids", {"T"}, kI32Only)
                                     .in("source", {"N"}, kI32Only)
                                     .in("source_rows", {"T"}, kI32Only)
                                     .out("token_ids", {"T"}, kI32Only);
  return schema;
}

const OpSchema& AcceptDrafts::schema() {
  static const OpSchema schema = OpSchema("accept_drafts")
                                     .in("token_ids", {"T"}, kI32Only)
                                     .in("target_token_ids", {"T"}, kI32Only)
                                     .in("query_start_loc", {"B+1"}, kI32Only)
                                     .out("num_accepted", {"B"}, kI32Only);
  return schema;
}

}  // namespace foretoken
