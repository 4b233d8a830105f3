#include "apps/foretoken/serve_run.h"

#include <chrono>
#include <thread>
#include <utility>

namespace foretoken::cli {
namespace {

using Clock = std::chrono::steady_clock;

class Server {
 public:
  Server(GenerationEngine& engine, const ServeLoad& load, std::span<const double> arrivals_s) : engine_(engine), load_(load) {
    for (const double arrival_s : arrivals_s) run_.requests.push_back({.arrival_s = arrival_s});
  }

  [[nodiscard]] double now_s() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  [[nodiscard]] bool all_arrived() const { return ids_.size() == run_.requests.size(); }

  void take_in_arrivals(const std::function<GenerationOptions(size_t)>& options_of) {
    while (!all_arrived() && run_.requests[ids_.size()].arrival_s <= now_s()) {
      const size_t request_idx = ids_.size();
      GenerationOptions options = options_of(request_idx);
      options.on_token = [this, request_idx](int32_t) { note_token(request_idx); };
      ids_.push_back(engine_.submit(load_.prompts[load_.requests[request_idx].prompt_idx], std::move(options)));
    }
  }

  void sleep_until_next_arrival() const {
    std::this_thread::sleep_until(begin_ + std::chrono::duration_cast<Clock::duration>(
                                               std::chrono::duration<double>(run_.requests[ids_.size()].arrival_s)));
  }

  /// One step of the engine; false when it has nothing left to do.
  bool step(std::vector<ServedDrafts>& noted) {
    noted.clear();
    ++step_idx_;
    const GenerationStatistics before = engine_.statistics();
    ServeStep step{.begin_s = now_s()};
    const bool is_busy = engine_.step();
    step.end_s = now_s();
    const GenerationStatistics& after = engine_.statistics();
    step.draft_ms = (after.draft_us - before.draft_us) / 1000.0;
    step.verify_ms = (after.verify_us - before.verify_us) / 1000.0;
    step.did_prefill = after.num_prefill_chunks > before.num_prefill_chunks;
    step.sequences = noted;
    run_.steps.push_back(std::move(step));
    return is_busy;
  }

  [[nodiscard]] ServeRun finish() {
    for (size_t i = 0; i < ids_.size(); ++i) run_.requests[i].result = engine_.take_result(ids_[i]);
    return std::move(run_);
  }

 private:
  /// The first token comes out of the prompt's last pass, in the same step as the first round.
  void note_token(size_t request_idx) {
    std::vector<TokenBurst>& bursts = run_.requests[request_idx].bursts;
    if (bursts.size() > 1 && step_of_last_burst_[request_idx] == step_idx_) {
      ++bursts.back().num_tokens;
      return;
    }
    bursts.push_back({.time_s = now_s(), .num_tokens = 1});
    step_of_last_burst_[request_idx] = step_idx_;
  }

  GenerationEngine& engine_;
  const ServeLoad& load_;
  ServeRun run_;
  std::vector<RequestId> ids_;  // of the requests that have arrived
  std::vector<int64_t> step_of_last_burst_ = std::vector<int64_t>(load_.requests.size());
  int64_t step_idx_ = 0;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

void NotedDepth::observe(const RoundReport& report) {
  for (const SequenceOutcome& outcome : report.sequences) {
    noted_.push_back({.num_drafted = outcome.num_drafted, .num_accepted = outcome.num_accepted});
  }
  policy_.observe(report);
}

ServeRun serve(GenerationEngine& engine, const ServeLoad& load, std::span<const double> arrivals_s,
               const std::function<GenerationOptions(size_t)>& options_of, std::vector<ServedDrafts>& noted) {
  Server server(engine, load, arrivals_s);
  for (bool is_busy = false; is_busy || !server.all_arrived();) {
    server.take_in_arrivals(options_of);
    if (engine.num_waiting() + engine.num_active() == 0) {
      server.sleep_until_next_arrival();
      is_busy = false;
      continue;
    }
    is_busy = server.step(noted);
  }
  return server.finish();
}

}  // namespace foretoken::cli
