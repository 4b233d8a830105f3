// The self-check: a second target that never speculates takes every committed row too, and must give the same logits.
#pragma once

#include <cstdint>
#include <span>

#include "speculative/generation_parts.h"
#include "speculative/generation_request.h"

namespace foretoken {

/// Rows of a step that became part of a sequence.
struct CommittedRows {
  int32_t fed_token_id;                 // of the first row
  int64_t first_row;                    // in the step
  std::span<const int32_t> target_ids;  // the pick after each row, which the next row was fed
};

/// Feeds the rows to the request's shadow and compares logits bit by bit; `request.result.self_check` counts. Both runners must
/// have keep_logits, the step's logits still be there.
void self_check(const GenerationParts& parts, GenerationRequest& request, const CommittedRows& rows);

}  // namespace foretoken
