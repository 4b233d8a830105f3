#include "speculative/generation_run.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/fault.h"

namespace foretoken {
namespace {

double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

/// Tokens that the caches must have room for: the text, and the drafts that may stick out of it.
int64_t budget(const Generator& generator, std::span<const int32_t> prompt, const GenerationOptions& options) {
  const int64_t wanted = static_cast<int64_t>(prompt.size()) + options.max_tokens + TargetRunner::kMaxVerifyRows;
  return std::min(wanted, generator.max_context());
}

}  // namespace

GenerationRun::GenerationRun(Generator& generator, std::span<const int32_t> prompt, const GenerationOptions& options)
    : g_(generator),
      prompt_(prompt),
      options_(options),
      sequence_(generator.runner_.create_sequence(budget(generator, prompt, options))),
      begin_event_(generator.backend_.create_event()),
      draft_event_(generator.backend_.create_event()),
      verify_event_(generator.backend_.create_event()),
      num_tokens_(static_cast<int64_t>(prompt.size())) {
  const bool speculates = options.num_speculative_tokens > 0 || !options.depth_pattern.empty();
  if (speculates && g_.proposer_ != nullptr) drafter_ = g_.proposer_->alloc_state(budget(generator, prompt, options));
  if (g_.shadow_ != nullptr) shadow_.emplace(g_.shadow_->create_sequence(budget(generator, prompt, options)));
}

void GenerationRun::prefill() {
  const Clock::time_point begin = Clock::now();
  const auto on_chunk = [this](int64_t first_position, int64_t num_rows) { append_prompt_rows(first_position, num_rows); };
  g_.runner_.prefill(sequence_, prompt_, drafter_ ? TargetRunner::ChunkFn(on_chunk) : nullptr);
  fresh_token_ids_ = g_.runner_.read_picks(1);
  if (shadow_) g_.shadow_->prefill(*shadow_, prompt_, nullptr);
  decode_begin_ = Clock::now();
  result_.timing.prefill_ms = milliseconds(decode_begin_ - begin);
  emit(fresh_token_ids_);
}

/// Drafter rows of prompt positions whose next token is known, straight from the chunk's hidden states.
void GenerationRun::append_prompt_rows(int64_t first_position, int64_t num_rows) {
  const int64_t known = std::min(num_rows, static_cast<int64_t>(prompt_.size()) - 1 - first_position);
  const int64_t step = g_.proposer_->max_append_rows();
  for (int64_t row = 0; row < known; row += step) {
    const int64_t rows = std::min(step, known - row);
    const auto next = prompt_.subspan(static_cast<size_t>(first_position + row + 1), static_cast<size_t>(rows));
    g_.proposer_->append_rows(g_.stream_, next, hidden_rows(row, rows), g_.runner_.options().prefill_precision, *drafter_);
  }
}

const Tensor& GenerationRun::hidden() const {
  const TargetModel& model = g_.runner_.model();
  return g_.proposer_->hidden_kind() == HiddenKind::kPostNorm ? model.hidden() : model.residual();
}

Tensor GenerationRun::hidden_rows(int64_t first_row, int64_t num_rows) const {
  return hidden().rows(first_hidden_row(first_row, num_rows), num_rows);
}

int64_t GenerationRun::first_hidden_row(int64_t first_row, int64_t num_rows) const {
  const bool off_by_one = fault::active(Fault::kHiddenOffByOne) && first_row + num_rows < hidden().dim(0);
  return first_row + (off_by_one ? 1 : 0);
}

int64_t GenerationRun::depth() {
  const auto& pattern = options_.depth_pattern;
  const int64_t wanted =
      pattern.empty() ? options_.num_speculative_tokens : pattern[static_cast<size_t>(round_idx_) % pattern.size()];
  // Row j of a verify step sits at position num_tokens_ - 1 + j, which must stay inside the context.
  return drafter_ ? std::min(wanted, g_.max_context() - num_tokens_) : 0;
}

void GenerationRun::round() {
  const int64_t drafts = depth();
  if (drafts > 0) {
    speculative_round(drafts);
  } else {
    plain_round();
  }
  ++round_idx_;
}

void GenerationRun::speculative_round(int64_t drafts) {
  flush_backlog();
  const auto fresh = static_cast<int64_t>(fresh_token_ids_.size());
  g_.stream_.record(*begin_event_);
  const DraftPart drafting{.state = drafter_.get(),
                           .next_token_ids = fresh_token_ids_,
                           .first_hidden_row = first_hidden_row(0, fresh),
                           .num_drafts = drafts};
  const Tensor block = g_.proposer_->propose(g_.stream_, {&drafting, 1}, hidden());
  g_.stream_.record(*draft_event_);
  const std::vector<int32_t> token_ids = step_token_ids(drafts);
  const StepPart part{.sequence = &sequence_, .token_ids = token_ids};
  g_.runner_.stage({&part, 1}, block);
  g_.runner_.run();
  g_.stream_.record(*verify_event_);
  const StepResult verified = std::move(g_.runner_.finish().front());
  g_.proposer_->after_verify(verified.num_accepted, *drafter_);
  result_.timing.draft_ms += draft_event_->elapsed_us(*begin_event_) / 1000.0;
  result_.timing.verify_ms += verify_event_->elapsed_us(*draft_event_) / 1000.0;

  std::vector<int32_t> committed(verified.target_token_ids.begin(),
                                 verified.target_token_ids.begin() + verified.num_accepted + 1);
  if (shadow_) {
    std::vector<int32_t> fed{newest_token_id_};
    fed.insert(fed.end(), committed.begin(), committed.end() - 1);
    self_check(*shadow_, fed, static_cast<int64_t>(fed.size()));
  }
  fresh_token_ids_ = committed;
  if (fault::active(Fault::kBonusTokenDropped) && committed.size() > 1) committed.pop_back();
  const int64_t emitted = emit(committed);
  result_.speculation.drafted += drafts;
  result_.speculation.accepted_per_round.push_back(std::min<int64_t>(emitted, verified.num_accepted));
}

void GenerationRun::plain_round() {
  if (drafter_) park_fresh_rows();
  g_.stream_.record(*draft_event_);
  g_.runner_.decode(sequence_, newest_token_id_);
  g_.stream_.record(*verify_event_);
  fresh_token_ids_ = g_.runner_.read_picks(1);
  result_.timing.verify_ms += verify_event_->elapsed_us(*draft_event_) / 1000.0;
  if (shadow_) self_check(*shadow_, std::vector<int32_t>{newest_token_id_}, 1);
  emit(fresh_token_ids_);
}

void GenerationRun::park_fresh_rows() {
  const auto fresh = static_cast<int64_t>(fresh_token_ids_.size());
  if (static_cast<int64_t>(backlog_token_ids_.size()) + fresh > kBacklogRows) flush_backlog();
  const Tensor parked = g_.backlog_.rows(static_cast<int64_t>(backlog_token_ids_.size()), fresh);
  g_.stream_.copy(hidden_rows(0, fresh).view(), parked.view());
  backlog_token_ids_.insert(backlog_token_ids_.end(), fresh_token_ids_.begin(), fresh_token_ids_.end());
  fresh_token_ids_.clear();
}

void GenerationRun::flush_backlog() {
  const auto total = static_cast<int64_t>(backlog_token_ids_.size());
  const int64_t step = g_.proposer_->max_append_rows();
  for (int64_t row = 0; row < total; row += step) {
    const int64_t rows = std::min(step, total - row);
    const auto ids = std::span(backlog_token_ids_).subspan(static_cast<size_t>(row), static_cast<size_t>(rows));
    g_.proposer_->append_rows(g_.stream_, ids, g_.backlog_.rows(row, rows), LinearPrecision::kExact, *drafter_);
  }
  backlog_token_ids_.clear();
}

/// The known continuation for as many drafts as the pattern says, then a token that it does not have there.
std::vector<int32_t> GenerationRun::step_token_ids(int64_t drafts) const {
  std::vector<int32_t> token_ids(static_cast<size_t>(1 + drafts), -1);
  token_ids[0] = newest_token_id_;
  const auto& [pattern, continuation] = options_.forced;
  if (pattern.empty()) return token_ids;
  const size_t next = static_cast<size_t>(num_tokens_) - prompt_.size();
  const auto accepts = static_cast<size_t>(std::min(pattern[static_cast<size_t>(round_idx_) % pattern.size()], drafts));
  for (size_t i = 0; i < static_cast<size_t>(drafts) && i <= accepts && next + i < continuation.size(); ++i) {
    const int32_t right = continuation[next + i];
    const auto vocab_size = static_cast<int32_t>(g_.runner_.model().config().vocab_size);
    token_ids[1 + i] = i < accepts ? right : (right + 1) % vocab_size;
  }
  return token_ids;
}

int64_t GenerationRun::emit(std::span<const int32_t> token_ids) {
  int64_t emitted = 0;
  for (int32_t id : token_ids) {
    newest_token_id_ = id;
    ++num_tokens_;
    ++emitted;
    result_.output_token_ids.push_back(id);
    if (options_.on_token) options_.on_token(id);
    const bool stops = std::ranges::find(options_.stop_token_ids, id) != options_.stop_token_ids.end();
    const bool full =
        static_cast<int64_t>(result_.output_token_ids.size()) >= options_.max_tokens || num_tokens_ >= g_.max_context();
    if (stops || full) {
      result_.finish_reason = stops ? FinishReason::kStop : FinishReason::kLength;
      finished_ = true;
      break;
    }
  }
  return emitted;
}

void GenerationRun::self_check(TargetSequence& shadow, std::span<const int32_t> fed_token_ids, int64_t num_rows) {
  const auto vocab_size = static_cast<size_t>(g_.runner_.model().config().vocab_size);
  std::vector<float> speculative(static_cast<size_t>(num_rows) * vocab_size);
  std::vector<float> plain(vocab_size);
  g_.stream_.download(g_.runner_.logits().rows(0, num_rows).view(), std::as_writable_bytes(std::span(speculative)));
  for (int64_t row = 0; row < num_rows; ++row) {
    g_.shadow_->decode(shadow, fed_token_ids[static_cast<size_t>(row)]);
    g_.stream_.download(g_.shadow_->logits().rows(0, 1).view(), std::as_writable_bytes(std::span(plain)));
    ++result_.self_check.rows_checked;
    if (std::memcmp(plain.data(), speculative.data() + static_cast<size_t>(row) * vocab_size, vocab_size * sizeof(float)) == 0)
      continue;
    if (result_.self_check.rows_different++ == 0) {
      result_.self_check.first_difference = static_cast<int64_t>(result_.output_token_ids.size()) + row;
    }
  }
}

GenerationResult GenerationRun::take_result() {
  GenerationTiming& timing = result_.timing;
  timing.decode_ms = milliseconds(Clock::now() - decode_begin_);
  timing.host_ms = std::max(0.0, timing.decode_ms - timing.draft_ms - timing.verify_ms);
  return std::move(result_);
}

}  // namespace foretoken
