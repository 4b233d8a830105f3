#include "apps/foretoken/serve_figures.h"

#include <algorithm>
#include <numeric>

#include "apps/foretoken/spread.h"

namespace foretoken::cli {
namespace {

/// `counts[index]`, which grows as needed.
int64_t& at(std::vector<int64_t>& counts, int64_t index) {
  if (counts.size() <= static_cast<size_t>(index)) counts.resize(static_cast<size_t>(index) + 1);
  return counts[static_cast<size_t>(index)];
}

double quotient(double a, double b) { return b > 0.0 ? a / b : 0.0; }

void add_request(const ServedRequest& request, ServeFigures& figures) {
  const std::vector<TokenBurst>& bursts = request.bursts;
  figures.time_to_first_token.sorted_ms.push_back(1000.0 * (bursts.front().time_s - request.arrival_s));
  figures.end_to_end.sorted_ms.push_back(1000.0 * (bursts.back().time_s - request.arrival_s));
  figures.output_tokens += static_cast<int64_t>(request.result.output_token_ids.size());
  for (size_t i = 1; i < bursts.size(); ++i) {
    const double gap_ms = 1000.0 * (bursts[i].time_s - bursts[i - 1].time_s);
    figures.inter_token.sorted_ms.insert(figures.inter_token.sorted_ms.end(), static_cast<size_t>(bursts[i].num_tokens),
                                         gap_ms / static_cast<double>(bursts[i].num_tokens));
    ++at(figures.tokens_per_round, bursts[i].num_tokens - 1);
  }
  figures.drafted += request.result.speculation.drafted;
  figures.accepted += request.result.speculation.accepted();
  figures.cached_prompt_tokens += request.result.num_cached_tokens;
  figures.preemptions += request.result.num_preemptions;
}

void add_step(const ServeStep& step, TimeSplit& time) {
  const double rest_ms = std::max(0.0, 1000.0 * (step.end_s - step.begin_s) - step.draft_ms - step.verify_ms);
  time.draft_ms += step.draft_ms;
  time.verify_ms += step.verify_ms;
  (step.did_prefill ? time.prefill_ms : time.host_ms) += rest_ms;
}

std::vector<double> acceptance_by_position(const std::vector<ServeStep>& steps) {
  std::vector<int64_t> drafted;
  std::vector<int64_t> held;
  for (const ServeStep& step : steps) {
    for (const auto& [num_drafted, num_accepted] : step.sequences) {
      for (int64_t j = 0; j < num_drafted; ++j) {
        ++at(drafted, j);
        at(held, j) += j < num_accepted ? 1 : 0;
      }
    }
  }
  std::vector<double> shares(drafted.size());
  std::ranges::transform(held, drafted, shares.begin(),
                         [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); });
  return shares;
}

std::vector<TimelinePoint> timeline(const std::vector<ServeStep>& steps, double begin_s, double seconds) {
  struct Stretch {
    int64_t rounds = 0;
    int64_t sequences = 0;
    int64_t drafted = 0;
  };
  std::vector<Stretch> stretches(static_cast<size_t>(ServeFigures::kTimelinePoints));
  const double width = seconds / static_cast<double>(stretches.size());
  for (const ServeStep& step : steps) {
    if (step.sequences.empty()) continue;
    const double position = std::max(0.0, quotient(step.begin_s - begin_s, width));
    Stretch& stretch = stretches[std::min(static_cast<size_t>(position), stretches.size() - 1)];
    ++stretch.rounds;
    stretch.sequences += static_cast<int64_t>(step.sequences.size());
    for (const ServedDrafts& sequence : step.sequences) stretch.drafted += sequence.num_drafted;
  }
  std::vector<TimelinePoint> points;
  for (size_t i = 0; i < stretches.size(); ++i) {
    const auto& [rounds, sequences, drafted] = stretches[i];
    if (rounds == 0) continue;
    points.push_back({.time_s = (static_cast<double>(i) + 0.5) * width,
                      .mean_depth = static_cast<double>(drafted) / static_cast<double>(sequences),
                      .mean_sequences = static_cast<double>(sequences) / static_cast<double>(rounds)});
  }
  return points;
}

}  // namespace

double Latencies::percentile(double percent) const { return sorted_ms.empty() ? 0.0 : quantile(sorted_ms, percent / 100.0); }

double Latencies::mean() const {
  return quotient(std::accumulate(sorted_ms.begin(), sorted_ms.end(), 0.0), static_cast<double>(sorted_ms.size()));
}

ServeFigures serve_figures(const ServeRun& run) {
  ServeFigures figures;
  const double begin_s = std::ranges::min_element(run.requests, {}, &ServedRequest::arrival_s)->arrival_s;
  double end_s = begin_s;
  for (const ServedRequest& request : run.requests) {
    add_request(request, figures);
    end_s = std::max(end_s, request.bursts.back().time_s);
  }
  for (Latencies* latencies : {&figures.time_to_first_token, &figures.inter_token, &figures.end_to_end}) {
    std::ranges::sort(latencies->sorted_ms);
  }
  figures.seconds = end_s - begin_s;
  figures.output_tokens_per_second = quotient(static_cast<double>(figures.output_tokens), figures.seconds);
  figures.requests_per_second = quotient(static_cast<double>(run.requests.size()), figures.seconds);

  int64_t sequences = 0;
  for (const ServeStep& step : run.steps) {
    add_step(step, figures.time);
    const auto in_round = static_cast<int64_t>(step.sequences.size());
    figures.rounds += in_round > 0 ? 1 : 0;
    figures.max_sequences = std::max(figures.max_sequences, in_round);
    sequences += in_round;
  }
  figures.time.idle_ms = std::max(0.0, 1000.0 * figures.seconds - figures.time.busy_ms());
  figures.mean_sequences = quotient(static_cast<double>(sequences), static_cast<double>(figures.rounds));
  figures.mean_tokens_per_round = quotient(
      static_cast<double>(figures.inter_token.sorted_ms.size()),
      static_cast<double>(std::accumulate(figures.tokens_per_round.begin(), figures.tokens_per_round.end(), int64_t{0})));
  figures.acceptance_by_position = acceptance_by_position(run.steps);
  figures.timeline = timeline(run.steps, begin_s, figures.seconds);
  return figures;
}

}  // namespace foretoken::cli
