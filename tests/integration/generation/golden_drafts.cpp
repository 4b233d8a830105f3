#include "golden_drafts.h"

#include <algorithm>

namespace foretoken::test {

Drafted draft_after(TestModel& model, std::span<const int32_t> prompt, int64_t num_drafts) {
  const auto length = static_cast<int64_t>(prompt.size());
  MtpProposer& proposer = model.proposer();
  const TargetModel& target = model.runner().model();
  const Tensor& hidden = proposer.hidden_kind() == HiddenKind::kPostNorm ? target.hidden() : target.residual();
  const auto state = proposer.alloc_state(length + num_drafts + 1);
  TargetSequence sequence = model.runner().create_sequence(length);
  model.runner().prefill(sequence, prompt, [&](int64_t first, int64_t rows) {
    const int64_t known = std::min(rows, length - 1 - first);
    proposer.append_rows(model.stream(), prompt.subspan(static_cast<size_t>(first + 1), static_cast<size_t>(known)),
                         hidden.rows(0, known), LinearPrecision::kExact, *state);
  });
  const Tensor block = propose_one(model.stream(), proposer, model.runner().read_picks(1), hidden, num_drafts, *state);
  Drafted drafted{.token_ids = std::vector<int32_t>(static_cast<size_t>(num_drafts)), .logprobs = {}};
  model.stream().download(block.rows(1, num_drafts).view(), std::as_writable_bytes(std::span(drafted.token_ids)));
  if (const Tensor logprobs = proposer.log_probabilities())
    drafted.logprobs = model.read(logprobs.rows(0, num_drafts).columns(0, 1));
  return drafted;
}

}  // namespace foretoken::test
