// The page of `bench serve`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/foretoken/report/chart.h"
#include "apps/foretoken/report/page.h"
#include "apps/foretoken/serve_report.h"

namespace foretoken::cli {
namespace {

constexpr int kShownPercentiles = 99;

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }
std::string milliseconds(double ms) { return fmt::format("{:.1f}", ms); }

std::string acceptance_chart(const ServeReport& report) {
  LineChart chart{.text = {.id = "acceptance",
                           .title = "Acceptance by position",
                           .note = "Of the rounds of a sequence with at least that many drafts, the share in which the draft at "
                                   "that position and all before it held.",
                           .x_label = "draft",
                           .y_label = "held, %"},
                  .has_marks = true,
                  .has_whole_x = true,
                  .y_max = 100.0};
  for (const ServeSeries& series : report.series) {
    LineChart::Series& line = chart.series.emplace_back(series.name());
    for (const double share : series.figures.acceptance_by_position) {
      line.points.emplace_back(static_cast<double>(line.points.size() + 1), 100.0 * share);
    }
  }
  return to_html(chart);
}

std::string tokens_chart(const ServeReport& report) {
  BarChart chart{.text = {.id = "tokens-per-round",
                          .title = "Tokens per round",
                          .note = "How many tokens a round gave a sequence; plain steps give one.",
                          .x_label = "tokens",
                          .y_label = "rounds of a sequence, %"}};
  size_t most = 0;
  for (const ServeSeries& series : report.series) most = std::max(most, series.figures.tokens_per_round.size());
  for (size_t tokens = 1; tokens <= most; ++tokens) chart.categories.push_back(std::to_string(tokens));
  for (const ServeSeries& series : report.series) {
    BarChart::Series& bars = chart.series.emplace_back(series.name(), std::vector<double>(most));
    double rounds = 0.0;
    for (const int64_t count : series.figures.tokens_per_round) rounds += static_cast<double>(count);
    std::ranges::transform(series.figures.tokens_per_round, bars.values.begin(),
                           [rounds](int64_t count) { return 100.0 * static_cast<double>(count) / rounds; });
  }
  return to_html(chart);
}

std::string time_chart(const ServeReport& report) {
  StackedChart chart{
      .text = {.id = "time",
               .title = "Where the time goes",
               .note = "Draft and verify Programs on the device, the host's part of rounds, and reading of prompts; "
                       "without the time in which no request was there.",
               .x_label = "",
               .y_label = ""},
      .parts = {"draft", "verify", "host", "prefill"}};
  for (const ServeSeries& series : report.series) {
    const TimeSplit& time = series.figures.time;
    chart.rows.push_back({.name = series.name(), .values = {time.draft_ms, time.verify_ms, time.host_ms, time.prefill_ms}});
  }
  return to_html(chart);
}

/// A line of each series over the time of its run.
std::string timeline_chart(const ServeReport& report, const ChartText& text, double TimelinePoint::*value) {
  LineChart chart{.text = text};
  for (const ServeSeries& series : report.series) {
    LineChart::Series& line = chart.series.emplace_back(series.name());
    for (const TimelinePoint& point : series.figures.timeline) line.points.emplace_back(point.time_s, point.*value);
  }
  return to_html(chart);
}

/// Which share of the samples is at most so long, up to the 99th percentile.
std::string latency_chart(const ServeReport& report, const ChartText& text, Latencies ServeFigures::*latencies) {
  LineChart chart{.text = text, .y_max = 100.0};
  for (const ServeSeries& series : report.series) {
    LineChart::Series& line = chart.series.emplace_back(series.name());
    if ((series.figures.*latencies).sorted_ms.empty()) continue;
    for (int at = 0; at <= kShownPercentiles; ++at) {
      line.points.emplace_back((series.figures.*latencies).percentile(at), at);
    }
  }
  return to_html(chart);
}

std::vector<std::string> figures(const ServeReport& report) {
  const auto latency_text = [](const char* id, const char* title, const char* note) {
    return ChartText{.id = id, .title = title, .note = note, .x_label = "milliseconds", .y_label = "at most so long, %"};
  };
  return {
      acceptance_chart(report),
      tokens_chart(report),
      time_chart(report),
      timeline_chart(report,
                     {.id = "depth",
                      .title = "Depth over time",
                      .note = "Mean number of drafts of a sequence in a round.",
                      .x_label = "seconds",
                      .y_label = "drafts"},
                     &TimelinePoint::mean_depth),
      timeline_chart(report,
                     {.id = "sequences",
                      .title = "Sequences over time",
                      .note = "Mean number of sequences in a round.",
                      .x_label = "seconds",
                      .y_label = "sequences"},
                     &TimelinePoint::mean_sequences),
      latency_chart(report,
                    latency_text("first-token", "Time to first token", "From the scheduled arrival; up to the 99th percentile."),
                    &ServeFigures::time_to_first_token),
      latency_chart(report,
                    latency_text("inter-token", "Inter-token latency",
                                 "The wait for a round, in equal shares of its tokens; up to the 99th percentile."),
                    &ServeFigures::inter_token),
      latency_chart(report,
                    latency_text("end-to-end", "End-to-end latency",
                                 "From the scheduled arrival to the last token; up to the 99th percentile."),
                    &ServeFigures::end_to_end),
  };
}

PageTable throughput_table(const ServeReport& report) {
  PageTable table{.caption = "Throughput of the run in the middle of all runs",
                  .header = {"drafts, arrivals", "tokens/s", "requests/s", "tokens", "seconds", "rounds", "mean sequences",
                             "most sequences", "tokens per round", "cached prompt tokens", "preemptions"},
                  .rows = {}};
  if (report.checked) table.header.emplace_back("texts that differ");
  for (const ServeSeries& series : report.series) {
    const ServeFigures& figures = series.figures;
    std::vector<std::string>& row = table.rows.emplace_back(std::vector<std::string>{
        series.name(), fmt::format("{:.1f}", figures.output_tokens_per_second),
        fmt::format("{:.2f}", figures.requests_per_second), std::to_string(figures.output_tokens),
        fmt::format("{:.2f}", figures.seconds), std::to_string(figures.rounds), fmt::format("{:.2f}", figures.mean_sequences),
        std::to_string(figures.max_sequences), fmt::format("{:.2f}", figures.mean_tokens_per_round),
        std::to_string(figures.cached_prompt_tokens), std::to_string(figures.preemptions)});
    if (report.checked) row.push_back(std::to_string(series.num_different));
  }
  return table;
}

PageTable latency_table(const ServeReport& report) {
  PageTable table{.caption = "Latencies in milliseconds",
                  .header = {"drafts, arrivals", "first token p50", "p90", "p99", "inter-token p50", "p90", "p99",
                             "end to end p50", "p90", "p99"},
                  .rows = {}};
  for (const ServeSeries& series : report.series) {
    std::vector<std::string>& row = table.rows.emplace_back(std::vector<std::string>{series.name()});
    const ServeFigures& figures = series.figures;
    for (const Latencies* latencies : {&figures.time_to_first_token, &figures.inter_token, &figures.end_to_end}) {
      for (const double at : {50.0, 90.0, 99.0}) row.push_back(milliseconds(latencies->percentile(at)));
    }
  }
  return table;
}

PageTable time_table(const ServeReport& report) {
  PageTable table{.caption = "Time in milliseconds",
                  .header = {"drafts, arrivals", "draft", "verify", "host", "prefill", "idle"},
                  .rows = {}};
  for (const ServeSeries& series : report.series) {
    const TimeSplit& time = series.figures.time;
    table.rows.push_back({series.name(), milliseconds(time.draft_ms), milliseconds(time.verify_ms), milliseconds(time.host_ms),
                          milliseconds(time.prefill_ms), milliseconds(time.idle_ms)});
  }
  return table;
}

PageTable acceptance_table(const ServeReport& report) {
  PageTable table{.caption = "Acceptance", .header = {"drafts, arrivals", "drafted", "emitted"}, .rows = {}};
  size_t positions = 0;
  for (const ServeSeries& series : report.series) positions = std::max(positions, series.figures.acceptance_by_position.size());
  for (size_t j = 1; j <= positions; ++j) table.header.push_back(fmt::format("draft {}", j));
  for (const ServeSeries& series : report.series) {
    const ServeFigures& figures = series.figures;
    std::vector<std::string>& row = table.rows.emplace_back(
        std::vector<std::string>{series.name(), std::to_string(figures.drafted), std::to_string(figures.accepted)});
    for (const double share : figures.acceptance_by_position) row.push_back(percent(share));
    row.resize(table.header.size(), "–");
  }
  return table;
}

void describe(const ServeReport& report, Page& page) {
  const EngineReport& engine = report.engine;
  page.heading("What was measured");
  page.code(report.command);
  page.definitions(
      {{"Model and device",
        fmt::format("{} on {} ({}), {} threads", engine.model, engine.device, engine.backend, engine.num_threads)},
       {"Precision", fmt::format("prefill {}, activations {}, KV cache {}, of the drafter {}", engine.prefill_precision,
                                 engine.activations, engine.kv_dtype, engine.draft_kv_dtype)},
       {"Draft head", engine.draft ? stored_text(*engine.draft) : "none"},
       {"Load", fmt::format("{} requests, {} tokens of prompts in all, {} to {} tokens each to generate, at most {} sequences at "
                            "once, seed {}",
                            report.num_requests, report.prompt_tokens, report.max_tokens.min, report.max_tokens.max,
                            report.max_sequences, report.seed)},
       {"Arrivals",
        "A Poisson process by the clock, whatever the engine does. Latencies count from the scheduled arrival, so a "
        "request that waits for its turn counts from when it should have been taken in."},
       {"Accept counts", report.forced_accepts.empty() ? "as the drafts held"
                                                       : fmt::format("forced to {}", fmt::join(report.forced_accepts, ", "))},
       {"Runs", fmt::format("{} of each kind; figures are those of the run of median throughput",
                            report.series.front().output_tokens_per_second.size())},
       {"Texts", !report.checked      ? "not compared"
                 : report.identical() ? "all identical to those of the requests alone"
                                      : "some differ from those of the requests alone"}});
}

}  // namespace

std::string to_html(const ServeReport& report, const std::string& made_at) {
  Page page("Serving " + report.engine.model + " on " + report.engine.device);
  page.paragraph("Made by foretoken, " + made_at + ".");
  page.table(throughput_table(report));
  page.table(latency_table(report));
  page.heading("Plots");
  page.figures(figures(report));
  page.heading("More figures");
  page.table(acceptance_table(report));
  page.table(time_table(report));
  describe(report, page);
  return page.to_html();
}

}  // namespace foretoken::cli
