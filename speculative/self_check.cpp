#include "speculative/self_check.h"

#include <cstring>
#include <vector>

namespace foretoken {

void self_check(const GenerationParts& parts, GenerationRequest& request, const CommittedRows& rows) {
  const auto vocab_size = static_cast<size_t>(parts.runner->model().config().vocab_size);
  const size_t num_rows = rows.target_ids.size();
  std::vector<float> speculative(num_rows * vocab_size);
  std::vector<float> plain(vocab_size);
  const Tensor logits = parts.runner->logits().rows(rows.first_row, static_cast<int64_t>(num_rows));
  parts.stream->download(logits.view(), std::as_writable_bytes(std::span(speculative)));
  SelfCheckResult& check = request.result.self_check;
  for (size_t row = 0; row < num_rows; ++row) {
    parts.shadow->decode(*request.shadow, row == 0 ? rows.fed_token_id : rows.target_ids[row - 1]);
    parts.stream->download(parts.shadow->logits().rows(0, 1).view(), std::as_writable_bytes(std::span(plain)));
    ++check.rows_checked;
    if (std::memcmp(plain.data(), speculative.data() + row * vocab_size, vocab_size * sizeof(float)) == 0) continue;
    if (check.rows_different++ == 0) {
      check.first_difference = static_cast<int64_t>(request.result.output_token_ids.size() + row);
    }
  }
}

}  // namespace foretoken
