#include "speculative/generator.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/error.h"
#include "speculative/generation_run.h"

namespace foretoken {

std::string_view to_string(FinishReason reason) { return reason == FinishReason::kStop ? "stop" : "length"; }

int64_t SpeculationStats::accepted() const {
  return std::accumulate(accepted_per_round.begin(), accepted_per_round.end(), int64_t{0});
}

std::vector<double> SpeculationStats::acceptance_by_position(int64_t depth) const {
  std::vector<double> shares;
  for (int64_t position = 1; position <= depth && rounds() > 0; ++position) {
    const auto reached = std::ranges::count_if(accepted_per_round, [&](int64_t accepted) { return accepted >= position; });
    shares.push_back(static_cast<double>(reached) / static_cast<double>(rounds()));
  }
  return shares;
}

double SpeculationStats::mean_tokens_per_round() const {
  return rounds() == 0 ? 0.0 : 1.0 + static_cast<double>(accepted()) / static_cast<double>(rounds());
}

Generator::Generator(GpuBackend& backend, Stream& stream, TargetRunner& runner, DraftProposer* proposer)
    : backend_(backend), stream_(stream), runner_(runner), proposer_(proposer) {
  if (proposer_ == nullptr) return;
  const TargetModel& model = runner.model();
  const DType dtype = (proposer->hidden_kind() == HiddenKind::kPostNorm ? model.hidden() : model.residual()).dtype();
  const Shape shape{GenerationRun::kBacklogRows, model.config().hidden_size};
  backlog_memory_ = backend.allocate(dtype_bytes(dtype, static_cast<size_t>(shape.num_elements())));
  backlog_ = backlog_memory_.tensor(dtype, shape);
}

void Generator::enable_self_check(TargetRunner& shadow) {
  if (!runner_.options().keep_logits || !shadow.options().keep_logits) {
    throw Error(ErrorCode::kInvalidArgument, "the self-check compares logits: both target runners need keep_logits");
  }
  shadow_ = &shadow;
}

int64_t Generator::max_context() const {
  return std::min(runner_.options().max_seq_len, runner_.model().config().max_position_embeddings);
}

GenerationResult Generator::generate(std::span<const int32_t> prompt, const GenerationOptions& options) {
  const auto fail = [](const std::string& what, const std::string& expected, int64_t got) {
    throw Error(ErrorCode::kInvalidArgument, {.what = what, .expected = expected, .got = std::to_string(got)});
  };
  if (prompt.empty()) throw Error(ErrorCode::kInvalidArgument, "the prompt is empty, expected at least one token");
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  if (prompt_tokens >= max_context())
    fail("tokens of the prompt", "fewer than the context of " + std::to_string(max_context()), prompt_tokens);
  if (options.max_tokens < 1) fail("tokens to generate", "at least 1", options.max_tokens);
  std::vector<int64_t> depths = options.depth_pattern;
  depths.push_back(options.num_speculative_tokens);
  const int64_t max_depth = proposer_ == nullptr ? 0 : std::min(proposer_->max_drafts(), TargetRunner::kMaxVerifyRows - 1);
  for (int64_t depth : depths) {
    if (depth < 0 || depth > max_depth) {
      fail("speculative tokens", proposer_ == nullptr ? "0, since there is no drafter" : "0 .. " + std::to_string(max_depth),
           depth);
    }
  }
  for (int64_t accepts : options.forced.pattern) {
    if (accepts < 0) fail("forced accept count", "at least 0", accepts);
  }
  GenerationRun run(*this, prompt, options);
  run.prefill();
  while (!run.is_finished()) run.round();
  return run.take_result();
}

}  // namespace foretoken
