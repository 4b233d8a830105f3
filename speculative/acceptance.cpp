#include "speculative/acceptance.h"

#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr int64_t kDrafts = PrefixAcceptance::kPositions;

/// One proposer along one text.
struct Walk {
  MeasuredProposer& measured;
  std::unique_ptr<ProposerState> state;
  std::vector<std::array<int32_t, kDrafts>> drafts;  // of each start

  [[nodiscard]] DraftProposer& proposer() const { return *measured.proposer; }
  [[nodiscard]] const Tensor& hidden(const TargetModel& model) const {
    return proposer().hidden_kind() == HiddenKind::kPostNorm ? model.hidden() : model.residual();
  }
};

std::vector<Walk> start_walks(std::span<MeasuredProposer> measured, int64_t budget_tokens) {
  std::vector<Walk> walks;
  for (MeasuredProposer& one : measured) {
    if (one.proposer->max_drafts() < kDrafts) {
      throw Error(ErrorCode::kInvalidArgument, {.what = "drafts of a proposer to be measured",
                                                .expected = "at least " + std::to_string(kDrafts),
                                                .got = std::to_string(one.proposer->max_drafts())});
    }
    walks.push_back({.measured = one, .state = one.proposer->alloc_state(budget_tokens), .drafts = {}});
  }
  return walks;
}

/// Rows of the chunk's positions whose next token is known.
void append_chunk(Stream& stream, const TargetRunner& runner, Walk& walk, std::span<const int32_t> prompt, int64_t first,
                  int64_t rows) {
  const int64_t known = std::min(rows, static_cast<int64_t>(prompt.size()) - 1 - first);
  const int64_t step = walk.proposer().max_append_rows();
  for (int64_t row = 0; row < known; row += step) {
    const int64_t count = std::min(step, known - row);
    walk.proposer().append_rows(stream, prompt.subspan(static_cast<size_t>(first + row + 1), static_cast<size_t>(count)),
                                walk.hidden(runner.model()).rows(row, count), runner.options().prefill_precision, *walk.state);
  }
}

/// Drafts after the newest token; the hidden state before it lies in the first row.
void draft(Stream& stream, const TargetRunner& runner, int32_t newest_token_id, Walk& walk) {
  const DraftPart part{.state = walk.state.get(), .next_token_ids = {&newest_token_id, 1}, .num_drafts = kDrafts};
  const Tensor block = walk.proposer().propose(stream, {&part, 1}, walk.hidden(runner.model()));
  stream.download(block.at(0).rows(1, kDrafts).view(), std::as_writable_bytes(std::span(walk.drafts.emplace_back())));
  walk.proposer().after_verify(0, *walk.state);
}

void count(Walk& walk, std::span<const int32_t> text) {
  PrefixAcceptance& acceptance = walk.measured.acceptance;
  for (size_t start = 0; start + kDrafts < text.size(); ++start) {
    const auto after = text.subspan(start + 1, kDrafts);
    const auto& drafts = walk.drafts[start];
    const auto holding = static_cast<size_t>(std::ranges::mismatch(drafts, after).in1 - drafts.begin());
    ++acceptance.starts;
    for (size_t j = 0; j < holding; ++j) ++acceptance.accepted[j];
  }
}

}  // namespace

double PrefixAcceptance::share(int64_t position) const {
  const int64_t held = accepted.at(static_cast<size_t>(position - 1));
  return starts == 0 ? 0.0 : static_cast<double>(held) / static_cast<double>(starts);
}

std::vector<int32_t> measure_prefix_acceptance(Stream& stream, TargetRunner& runner, std::span<MeasuredProposer> measured,
                                               std::span<const int32_t> prompt, const MeasuredText& wanted) {
  // Drafts after the text's last token must fit into the context too.
  const int64_t room = runner.options().max_seq_len - static_cast<int64_t>(prompt.size()) - kDrafts;
  const int64_t limit = std::min(wanted.max_tokens, room);
  const int64_t budget = static_cast<int64_t>(prompt.size()) + std::max<int64_t>(limit, 0) + kDrafts;
  std::vector<Walk> walks = start_walks(measured, budget);
  TargetSequence sequence = runner.create_sequence(budget);
  if (!wanted.draft_prompt_rows && prompt.size() > 1) {
    for (Walk& walk : walks) walk.proposer().skip_to(static_cast<int64_t>(prompt.size()) - 1, *walk.state);
  }
  runner.prefill(sequence, prompt, [&](int64_t first, int64_t rows) {
    if (!wanted.draft_prompt_rows) return;
    for (Walk& walk : walks) append_chunk(stream, runner, walk, prompt, first, rows);
  });
  std::vector<int32_t> text = runner.read_picks(1);
  const auto is_stop = [&](int32_t id) { return std::ranges::find(wanted.stop_token_ids, id) != wanted.stop_token_ids.end(); };
  while (static_cast<int64_t>(text.size()) < limit && !is_stop(text.back())) {
    for (Walk& walk : walks) draft(stream, runner, text.back(), walk);
    runner.decode(sequence, text.back());
    text.push_back(runner.read_picks(1)[0]);
  }
  for (Walk& walk : walks) count(walk, text);
  return text;
}

}  // namespace foretoken
