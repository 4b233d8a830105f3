#include "apps/foretoken/serve_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace foretoken::cli {
namespace {

using Json = nlohmann::ordered_json;

Json latency_json(const Latencies& latencies) {
  return {{"p50", latencies.percentile(50)},
          {"p90", latencies.percentile(90)},
          {"p99", latencies.percentile(99)},
          {"mean", latencies.mean()},
          {"max", latencies.percentile(100)}};
}

Json series_json(const ServeReport& report, const ServeSeries& series) {
  const ServeFigures& figures = series.figures;
  Json timeline = Json::array();
  for (const TimelinePoint& point : figures.timeline) {
    timeline.push_back({{"s", point.time_s}, {"mean_depth", point.mean_depth}, {"mean_sequences", point.mean_sequences}});
  }
  return {{"draft_rows", series.draft_rows.empty() ? Json() : Json(series.draft_rows)},
          {"speculative_tokens", series.depth_policy},
          {"rate", std::isinf(series.rate) ? Json("inf") : Json(series.rate)},
          {"seconds", figures.seconds},
          {"output_tokens", figures.output_tokens},
          {"output_tokens_per_second", figures.output_tokens_per_second},
          {"requests_per_second", figures.requests_per_second},
          {"runs_output_tokens_per_second", series.output_tokens_per_second},
          {"latency_ms",
           {{"time_to_first_token", latency_json(figures.time_to_first_token)},
            {"inter_token", latency_json(figures.inter_token)},
            {"end_to_end", latency_json(figures.end_to_end)}}},
          {"rounds", figures.rounds},
          {"mean_sequences", figures.mean_sequences},
          {"max_sequences", figures.max_sequences},
          {"mean_tokens_per_round", figures.mean_tokens_per_round},
          {"tokens_per_round", figures.tokens_per_round},
          {"drafted", figures.drafted},
          {"accepted", figures.accepted},
          {"acceptance_by_position", figures.acceptance_by_position},
          {"timing_ms",
           {{"draft", figures.time.draft_ms},
            {"verify", figures.time.verify_ms},
            {"host", figures.time.host_ms},
            {"prefill", figures.time.prefill_ms},
            {"idle", figures.time.idle_ms}}},
          {"timeline", timeline},
          {"cached_prompt_tokens", figures.cached_prompt_tokens},
          {"preemptions", figures.preemptions},
          {"different", report.checked ? Json(series.num_different) : Json()}};
}

std::string percentiles(const Latencies& latencies) {
  return fmt::format("{:.1f} / {:.1f} / {:.1f}", latencies.percentile(50), latencies.percentile(90), latencies.percentile(99));
}

std::string rate_text(double rate) { return std::isinf(rate) ? "all at once" : fmt::format("{:g} requests/s", rate); }

std::string series_text(const ServeReport& report, const ServeSeries& series) {
  const ServeFigures& figures = series.figures;
  const double busy_ms = figures.time.busy_ms();
  const auto share = [busy_ms](double ms) { return busy_ms > 0.0 ? 100.0 * ms / busy_ms : 0.0; };
  std::string out = fmt::format("\ndrafts {}\n", series.name());
  out += fmt::format("  throughput           {:.1f} tokens/s, {:.2f} requests/s, {} tokens in {:.2f} s\n",
                     figures.output_tokens_per_second, figures.requests_per_second, figures.output_tokens, figures.seconds);
  out += fmt::format("  time to first token  {} ms (p50 / p90 / p99, from the scheduled arrival)\n",
                     percentiles(figures.time_to_first_token));
  out += fmt::format("  inter-token          {} ms\n", percentiles(figures.inter_token));
  out += fmt::format("  end to end           {} ms\n", percentiles(figures.end_to_end));
  out += fmt::format("  rounds               {}, {:.2f} sequences (at most {}), {:.2f} tokens of a sequence per round\n",
                     figures.rounds, figures.mean_sequences, figures.max_sequences, figures.mean_tokens_per_round);
  if (!figures.acceptance_by_position.empty()) {
    out += fmt::format("  acceptance           {:.2f} by position, {} of {} drafts emitted\n",
                       fmt::join(figures.acceptance_by_position, " "), figures.accepted, figures.drafted);
  }
  out += fmt::format("  time                 draft {:.0f} %, verify {:.0f} %, host {:.0f} %, prefill {:.0f} %; idle {:.2f} s\n",
                     share(figures.time.draft_ms), share(figures.time.verify_ms), share(figures.time.host_ms),
                     share(figures.time.prefill_ms), figures.time.idle_ms / 1000.0);
  out += fmt::format("  memory               {} prompt tokens from the prefix cache, {} preemptions\n",
                     figures.cached_prompt_tokens, figures.preemptions);
  if (!report.checked) return out;
  if (series.num_different == 0) return out + "  texts                all identical to those of the requests alone\n";
  return out + fmt::format("  texts                {} differ from those of the requests alone\n", series.num_different);
}

/// Acceptance of all that drafted, one under the other.
std::string comparison(const ServeReport& report) {
  constexpr std::string_view kTitle = "acceptance by draft";
  size_t width = kTitle.size();
  size_t num_positions = 0;
  for (const ServeSeries& series : report.series) {
    width = std::max(width, series.name().size());
    num_positions = std::max(num_positions, series.figures.acceptance_by_position.size());
  }
  if (num_positions == 0) return {};
  std::string out = fmt::format("\n{:<{}}  {:>12}  {:>10}", kTitle, width, "tokens/round", "tokens/s");
  for (size_t j = 1; j <= num_positions; ++j) out += fmt::format("  {:>5}", j);
  out += '\n';
  for (const ServeSeries& series : report.series) {
    out += fmt::format("{:<{}}  {:>12.2f}  {:>10.1f}", series.name(), width, series.figures.mean_tokens_per_round,
                       series.figures.output_tokens_per_second);
    for (const double share : series.figures.acceptance_by_position) out += fmt::format("  {:>5.3f}", share);
    out += '\n';
  }
  return out;
}

}  // namespace

std::string ServeSeries::name() const {
  const bool is_usual = draft_rows.empty() || draft_rows == row_policy_name(RowPolicy::kExact);
  return depth_policy + (is_usual ? "" : ", " + draft_rows) + ", " + rate_text(rate);
}

bool ServeReport::identical() const {
  return std::ranges::all_of(series, [](const ServeSeries& one) { return one.num_different == 0; });
}

std::string to_json(const ServeReport& report) {
  Json json = engine_json(report.engine);
  json.update(Json{{"command", report.command},
                   {"requests", report.num_requests},
                   {"max_sequences", report.max_sequences},
                   {"prompt_tokens", report.prompt_tokens},
                   {"max_tokens", {report.max_tokens.min, report.max_tokens.max}},
                   {"seed", report.seed},
                   {"repeat", report.series.front().output_tokens_per_second.size()},
                   {"forced_accepts", report.forced_accepts},
                   {"series", Json::array()}});
  for (const ServeSeries& series : report.series) json["series"].push_back(series_json(report, series));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_table(const ServeReport& report) {
  std::string out = engine_text(report.engine);
  out += fmt::format(
      "{} requests with {} tokens of prompts in all, {} to {} tokens each to generate, at most {} at once; of {} runs that of "
      "median throughput\n",
      report.num_requests, report.prompt_tokens, report.max_tokens.min, report.max_tokens.max, report.max_sequences,
      report.series.front().output_tokens_per_second.size());
  if (!report.forced_accepts.empty()) out += fmt::format("accept counts forced to {}\n", fmt::join(report.forced_accepts, ","));
  for (const ServeSeries& series : report.series) out += series_text(report, series);
  return report.series.size() > 1 ? out + comparison(report) : out;
}

}  // namespace foretoken::cli
