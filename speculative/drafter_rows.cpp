#include "speculative/drafter_rows.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/fault.h"

namespace foretoken {

DrafterRows::DrafterRows(Stream& stream, const TargetRunner& runner, DraftProposer& proposer, bool takes_prompts)
    : stream_(stream), runner_(runner), proposer_(proposer), takes_prompts_(takes_prompts) {
  const int64_t needed = kParkedRows * runner.options().max_sequences;
  if (runner.options().num_parked_rows >= needed) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "parked rows of the target runner",
                                            .expected = "at least " + std::to_string(needed),
                                            .got = std::to_string(runner.options().num_parked_rows)});
}

const Tensor& DrafterRows::hidden() const {
  const TargetModel& model = runner_.model();
  return proposer_.hidden_kind() == HiddenKind::kPostNorm ? model.hidden() : model.residual();
}

int64_t DrafterRows::first_parked_row(int32_t state_slot) const { return runner_.model().max_rows() + kParkedRows * state_slot; }

void DrafterRows::start(GenerationRequest& request, int64_t budget_tokens, int64_t num_cached_tokens) {
  request.drafter = proposer_.alloc_state(budget_tokens);
  // The row of the prompt's last token is built with the first one of the text.
  const int64_t first_key = takes_prompts_ ? num_cached_tokens : static_cast<int64_t>(request.prompt.size()) - 1;
  if (first_key > 0) proposer_.skip_to(first_key, *request.drafter);
}

void DrafterRows::append_chunk(GenerationRequest& request, int64_t first_position, int64_t num_rows) {
  if (!takes_prompts_) return;
  const auto& prompt = request.prompt;
  const int64_t step = proposer_.max_append_rows();
  const int64_t off_by_one = fault::active(Fault::kHiddenOffByOne) ? 1 : 0;
  for (int64_t row = 0; row < num_rows - 1; row += step) {
    const int64_t rows = std::min(step, num_rows - 1 - row);
    const auto next = std::span(prompt).subspan(static_cast<size_t>(first_position + row + 1), static_cast<size_t>(rows));
    proposer_.append_rows(stream_, next, hidden().rows(row + off_by_one, rows), runner_.options().prefill_precision,
                          *request.drafter);
  }
  const auto next_position = static_cast<size_t>(first_position + num_rows);
  if (next_position < prompt.size()) add(request, std::span(prompt).subspan(next_position, 1), num_rows - 1);
}

void DrafterRows::add(GenerationRequest& request, std::span<const int32_t> next_token_ids, int64_t first_row) {
  PendingRows& pending = request.pending;
  if (pending.next_token_ids.empty()) {
    pending.next_token_ids.assign(next_token_ids.begin(), next_token_ids.end());
    pending.first_hidden_row = first_row;
    pending.is_parked = false;
    return;
  }
  copy_to_place(request, first_row, static_cast<int64_t>(next_token_ids.size()));
  pending.next_token_ids.insert(pending.next_token_ids.end(), next_token_ids.begin(), next_token_ids.end());
}

void DrafterRows::park(GenerationRequest& request) {
  PendingRows& pending = request.pending;
  if (pending.next_token_ids.empty() || pending.is_parked) return;
  std::vector<int32_t> next_token_ids = std::exchange(pending.next_token_ids, {});
  copy_to_place(request, pending.first_hidden_row, static_cast<int64_t>(next_token_ids.size()));
  pending.next_token_ids = std::move(next_token_ids);
}

void DrafterRows::pass_by(GenerationRequest& request, int64_t num_rounds_ahead) {
  PendingRows& pending = request.pending;
  ++pending.num_plain_rounds;
  const int64_t num_rows_to_come = 1 + num_rounds_ahead;
  if (pending.num_plain_rounds <= kRoundsToRest || num_rows_to_come < kRecentRows) return park(request);
  pending.num_left_out += static_cast<int64_t>(pending.next_token_ids.size());
  pending.next_token_ids.clear();
}

void DrafterRows::copy_to_place(GenerationRequest& request, int64_t first_row, int64_t num_rows) {
  PendingRows& pending = request.pending;
  const int64_t place = first_parked_row(request.sequence->state_slot());
  const auto held = static_cast<int64_t>(pending.next_token_ids.size());
  if (held > 0 && pending.first_hidden_row + held + num_rows > place + kParkedRows) flush(request);
  if (pending.next_token_ids.empty()) pending.first_hidden_row = place;
  const int64_t to = pending.first_hidden_row + static_cast<int64_t>(pending.next_token_ids.size());
  stream_.copy(hidden().rows(first_row, num_rows).view(), hidden().rows(to, num_rows).view());
  pending.is_parked = true;
}

void DrafterRows::make_proposable(GenerationRequest& request) {
  const auto held = static_cast<int64_t>(request.pending.next_token_ids.size());
  append_oldest(request, held > proposer_.max_part_rows() ? held - 1 : 0);
}

void DrafterRows::keep_newest(GenerationRequest& request) {
  append_oldest(request, std::max<int64_t>(static_cast<int64_t>(request.pending.next_token_ids.size()) - 1, 0));
}

void DrafterRows::set_parked(GenerationRequest& request, PendingRows row) {
  row.first_hidden_row = first_parked_row(request.sequence->state_slot());
  row.is_parked = true;
  request.pending = std::move(row);
}

void DrafterRows::append_oldest(GenerationRequest& request, int64_t count) {
  PendingRows& pending = request.pending;
  const int64_t num_left_out = std::exchange(pending.num_left_out, 0);
  if (num_left_out > 0) proposer_.skip_to(proposer_.first_missing_key(*request.drafter) + num_left_out, *request.drafter);
  const int64_t step = proposer_.max_append_rows();
  for (int64_t row = 0; row < count; row += step) {
    const int64_t rows = std::min(step, count - row);
    const auto next = std::span(pending.next_token_ids).subspan(static_cast<size_t>(row), static_cast<size_t>(rows));
    proposer_.append_rows(stream_, next, hidden().rows(pending.first_hidden_row + row, rows), LinearPrecision::kExact,
                          *request.drafter);
  }
  pending.next_token_ids.erase(pending.next_token_ids.begin(), pending.next_token_ids.begin() + count);
  pending.first_hidden_row += count;
}

}  // namespace foretoken
