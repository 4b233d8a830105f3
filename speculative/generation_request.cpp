#include "speculative/generation_request.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace foretoken {
namespace {

double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

GenerationRequest::GenerationRequest(RequestId request_id, std::vector<int32_t> prompt_ids, GenerationOptions generation_options,
                                     const Tokenizer* tokenizer, int64_t max_context)
    : id(request_id), prompt(std::move(prompt_ids)), options(std::move(generation_options)), max_context_(max_context) {
  if (tokenizer != nullptr) {
    text_.emplace(*tokenizer, options.stop_strings, options.on_text);
  } else if (!options.stop_strings.empty() || options.on_text) {
    throw Error(ErrorCode::kInvalidArgument, "stop strings and text need a tokenizer, and this model has none");
  }
}

bool GenerationRequest::speculates() const { return options.num_speculative_tokens > 0 || !options.depth_pattern.empty(); }

int64_t GenerationRequest::budget_tokens(int64_t max_verify_rows) const {
  return std::min(static_cast<int64_t>(prompt.size()) + options.max_tokens + max_verify_rows, max_context_);
}

int64_t GenerationRequest::wanted_depth() const {
  const auto& pattern = options.depth_pattern;
  const int64_t wanted =
      pattern.empty() ? options.num_speculative_tokens : pattern[static_cast<size_t>(round_idx) % pattern.size()];
  // Row j of a verify step sits at position num_tokens() - 1 + j, which must stay inside the context.
  return std::min(wanted, max_context_ - num_tokens());
}

std::vector<int32_t> GenerationRequest::step_token_ids(int64_t depth, int64_t vocab_size) const {
  std::vector<int32_t> token_ids(static_cast<size_t>(1 + depth), -1);
  token_ids[0] = newest_token_id();
  const auto& [pattern, continuation] = options.forced;
  if (pattern.empty()) return token_ids;
  const size_t next = result.output_token_ids.size();
  const auto accepts = static_cast<size_t>(std::min(pattern[static_cast<size_t>(round_idx) % pattern.size()], depth));
  for (size_t i = 0; i < static_cast<size_t>(depth) && i <= accepts && next + i < continuation.size(); ++i) {
    const int32_t right = continuation[next + i];
    token_ids[1 + i] = i < accepts ? right : (right + 1) % static_cast<int32_t>(vocab_size);
  }
  return token_ids;
}

int64_t GenerationRequest::emit(std::span<const int32_t> token_ids) {
  int64_t emitted = 0;
  for (const int32_t token_id : token_ids) {
    if (result.output_token_ids.empty()) {
      decode_begin = Clock::now();
      result.timing.prefill_ms = milliseconds(decode_begin - admitted_at);
    }
    result.output_token_ids.push_back(token_id);
    ++emitted;
    if (options.on_token) options.on_token(token_id);
    if (is_finished()) break;
    const bool stops_text = text_ && text_->push(token_id);
    const bool stops = stops_text || std::ranges::find(options.stop_token_ids, token_id) != options.stop_token_ids.end();
    const bool is_full =
        static_cast<int64_t>(result.output_token_ids.size()) >= options.max_tokens || num_tokens() >= max_context_;
    if (!stops && !is_full) continue;
    finish(stops ? FinishReason::kStop : FinishReason::kLength);
    break;
  }
  return emitted;
}

void GenerationRequest::finish(FinishReason reason) {
  phase = Phase::kFinished;
  result.finish_reason = reason;
  if (text_) {
    text_->finish();
    result.text = text_->text();
  }
  GenerationTiming& timing = result.timing;
  if (!result.output_token_ids.empty()) timing.decode_ms = milliseconds(Clock::now() - decode_begin);
  timing.host_ms = std::max(0.0, timing.decode_ms - timing.draft_ms - timing.verify_ms);
}

}  // namespace foretoken
