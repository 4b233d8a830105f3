#include "golden_texts.h"

#include <algorithm>

namespace foretoken::test {

GoldenWalk walk_along(TestModel& model, std::span<const int32_t> prompt, std::span<const int32_t> text) {
  MtpProposer& proposer = model.proposer();
  TargetRunner& runner = model.runner();
  const Tensor& hidden = runner.model().hidden();
  const auto budget = static_cast<int64_t>(prompt.size() + text.size());
  const auto state = proposer.alloc_state(budget + kGoldenDepth);
  TargetSequence sequence = runner.create_sequence(budget);
  runner.prefill(sequence, prompt, [&](int64_t first, int64_t rows) {
    const int64_t known = std::min(rows, static_cast<int64_t>(prompt.size()) - 1 - first);
    proposer.append_rows(model.stream(), prompt.subspan(static_cast<size_t>(first + 1), static_cast<size_t>(known)),
                         hidden.rows(0, known), runner.options().prefill_precision, *state);
  });
  GoldenWalk walk;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0) runner.decode(sequence, text[i - 1]);
    walk.picks.push_back(runner.read_picks(1)[0]);
    const Tensor block = propose_one(model.stream(), proposer, text.subspan(i, 1), hidden, kGoldenDepth, *state);
    model.stream().download(block.rows(1, kGoldenDepth).view(), std::as_writable_bytes(std::span(walk.drafts.emplace_back())));
    proposer.after_verify(0, *state);
  }
  return walk;
}

std::vector<int64_t> accepted_per_round(std::span<const int32_t> text, std::span<const GoldenDrafts> drafts, int64_t depth) {
  std::vector<int64_t> rounds;
  for (size_t newest = 0; newest + 1 < text.size();) {
    const auto after = text.subspan(newest + 1);
    const auto proposed = std::span(drafts[newest]).first(static_cast<size_t>(depth));
    const auto held = std::ranges::mismatch(proposed, after).in1 - proposed.begin();
    rounds.push_back(held);
    newest += static_cast<size_t>(held) + 1;
  }
  return rounds;
}

}  // namespace foretoken::test
