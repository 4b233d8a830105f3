#include "speculative/cost_measurement.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "speculative/drafter_rows.h"

namespace foretoken {
namespace {

using Clock = std::chrono::steady_clock;

/// Rounds of a depth. The first one, which uploads block tables, does not count where there is time for the others.
constexpr int64_t kRounds = 4;
constexpr double kSlowRoundUs = 10e3;
/// For so long rounds do not count at all: code, weights and threads are still cold, above all in those that come first.
constexpr double kWarmUpUs = 5e3;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::vector<int64_t> depths_by_what_they_show(int64_t max_drafts) {
  std::vector<int64_t> depths;
  const auto add = [&depths](int64_t depth) {
    if (std::ranges::find(depths, depth) == depths.end()) depths.push_back(depth);
  };
  add(0);
  add(max_drafts);
  add(std::min<int64_t>(1, max_drafts));
  add(max_drafts / 2);
  for (int64_t depth = 2; depth < max_drafts; ++depth) add(depth);
  return depths;
}

/// Rounds of one depth.
class MeasuredRounds {
 public:
  MeasuredRounds(const GenerationParts& parts, int64_t num_sequences, int64_t depth)
      : parts_(parts), hidden_(DrafterRows(*parts.stream, *parts.runner, *parts.proposer).hidden()), depth_(depth) {
    // Half of the drafts of the round before held, if there is room for the rows that they leave.
    const int64_t context = parts.runner->options().max_seq_len;
    num_new_rows_ = 1 + depth / 2;
    if (kRounds * num_new_rows_ + depth > context) num_new_rows_ = 1;
    budget_ = kRounds * num_new_rows_ + depth;
    const int64_t block_size = parts.runner->options().block_size;
    const int64_t blocks = num_sequences * ((budget_ + block_size - 1) / block_size);
    fits_ = budget_ <= context && blocks <= parts.runner->kv_cache().pool().num_free() &&
            blocks <= parts.proposer->kv_cache().pool().num_free();
    if (fits_) add_sequences(num_sequences);
  }

  [[nodiscard]] bool fits() const { return fits_; }

  [[nodiscard]] RoundTime run(Event& begin, Event& drafted, Event& verified) {
    Stream& stream = *parts_.stream;
    const Clock::time_point begin_time = Clock::now();
    stage();
    stream.record(begin);
    if (depth_ > 0) static_cast<void>(parts_.proposer->propose(stream, drafts_, hidden_));
    stream.record(drafted);
    parts_.runner->run();
    stream.record(verified);
    const std::vector<StepResult> results = parts_.runner->finish();
    for (size_t i = 0; depth_ > 0 && i < results.size(); ++i) {
      TargetRunner::keep_rows(sequences_[i], results[i], 1);
      static_cast<void>(parts_.proposer->after_verify(0, *states_[i]));
    }
    const double total_us = microseconds_since(begin_time);
    RoundTime time{.draft_us = depth_ > 0 ? drafted.elapsed_us(begin) : 0.0, .verify_us = verified.elapsed_us(drafted)};
    time.host_us = std::max(0.0, total_us - time.draft_us - time.verify_us);
    return time;
  }

 private:
  /// Other tokens in every row, as rows of a mixture of experts rarely pick the same ones.
  void add_sequences(int64_t num_sequences) {
    const int64_t vocab_size = parts_.runner->model().config().vocab_size;
    uint32_t random = 1;
    const auto token_id = [&] {
      random = random * 1664525U + 1013904223U;
      return static_cast<int32_t>((random >> 8) % static_cast<uint64_t>(vocab_size));
    };
    for (int64_t i = 0; i < num_sequences; ++i) {
      sequences_.push_back(parts_.runner->create_sequence(budget_));
      std::ranges::generate(token_ids_.emplace_back(static_cast<size_t>(1 + std::max(depth_, num_new_rows_))), token_id);
      if (depth_ == 0) continue;
      states_.push_back(parts_.proposer->alloc_state(budget_));
    }
    for (size_t i = 0; i < states_.size(); ++i) {
      drafts_.push_back({.state = states_[i].get(),
                         .next_token_ids = std::span(token_ids_[i]).first(static_cast<size_t>(num_new_rows_)),
                         .first_hidden_row = static_cast<int64_t>(i) * num_new_rows_,
                         .num_drafts = depth_});
    }
    // Nobody may have written them yet.
    const Tensor rows = hidden_.rows(0, num_sequences * num_new_rows_);
    parts_.stream->run([&rows](CommandList& cmd) { cmd.fill(rows.view(), 0); });
    parts_.stream->synchronize();
  }

  void stage() {
    std::vector<StepPart> step;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      step.push_back({.sequence = &sequences_[i],
                      .token_ids = std::span(token_ids_[i]).first(static_cast<size_t>(1 + depth_)),
                      .block_row = static_cast<int64_t>(i)});
    }
    parts_.runner->stage(step, depth_ > 0 ? parts_.proposer->block_token_ids() : Tensor());
  }

  const GenerationParts& parts_;
  const Tensor& hidden_;
  int64_t depth_;
  int64_t num_new_rows_ = 1;
  int64_t budget_ = 0;
  bool fits_ = false;
  std::vector<TargetSequence> sequences_;
  std::vector<std::unique_ptr<ProposerState>> states_;
  std::vector<std::vector<int32_t>> token_ids_;
  std::vector<DraftPart> drafts_;
};

}  // namespace

void measure_round_costs(const GenerationParts& parts, int64_t num_sequences, DepthPolicy& policy) {
  if (parts.proposer->may_stop_early()) return;
  const auto begin_event = parts.backend->create_event();
  const auto draft_event = parts.backend->create_event();
  const auto verify_event = parts.backend->create_event();
  const std::vector<int64_t> depths = depths_by_what_they_show(std::min(policy.max_drafts(), parts.proposer->max_drafts()));
  // Calls learn(round_idx, depth, time) after rounds of every depth, or for as long as there is time.
  const auto run_rounds = [&](double most_us, const auto& learn) {
    const Clock::time_point begin = Clock::now();
    for (const int64_t depth : depths) {
      MeasuredRounds rounds(parts, num_sequences, depth);
      for (int64_t i = 0; rounds.fits() && i < kRounds; ++i) {
        learn(i, depth, rounds.run(*begin_event, *draft_event, *verify_event));
        if (microseconds_since(begin) > most_us) return;
      }
    }
  };
  run_rounds(kWarmUpUs, [](int64_t /*round_idx*/, int64_t /*depth*/, const RoundTime& /*time*/) {});
  run_rounds(kMeasuringUs, [&](int64_t round_idx, int64_t depth, const RoundTime& time) {
    if (round_idx > 0 || time.total_us() > kSlowRoundUs) policy.learn_cost(num_sequences, depth, time);
  });
}

}  // namespace foretoken
