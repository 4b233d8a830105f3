#include "apps/foretoken/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/foretoken/generation_report.h"

namespace foretoken::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Figures of a series: its run of median decode time, and the median of what is measured by itself.
struct Figures {
  const GenerationResult* run = nullptr;
  double prefill_tokens_per_second = 0.0;
  double tokens_per_second = 0.0;
  double speedup = 0.0;
  int64_t steps = 0;
  double tokens_per_step = 0.0;
  double host_us_per_step = 0.0;
  double verify_of_plain = 0.0;              // the verify step of a round over a plain step
  std::optional<double> bytes_per_second{};  // of the device's time
  std::optional<double> bandwidth_share{};
};

/// Median of `value(run)` over the runs of a series.
template <class Value>
double median_over_runs(const BenchSeries& series, Value value) {
  std::vector<double> values(series.runs.size());
  std::ranges::transform(series.runs, values.begin(), value);
  return median(std::move(values));
}

const GenerationResult& median_run(const BenchSeries& series) {
  std::vector<size_t> order(series.runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&series](size_t run) { return series.runs[run].timing.decode_ms; });
  return series.runs[order[(order.size() - 1) / 2]];
}

double median_speed(const BenchSeries& series) { return median_over_runs(series, decode_tokens_per_second); }

double prefill_speed(const BenchReport& report, const BenchSeries& series) {
  return median_over_runs(series, [&report](const GenerationResult& run) {
    return static_cast<double>(report.prompt_tokens) * 1000.0 / run.timing.prefill_ms;
  });
}

int64_t steps_of(const BenchSeries& series, const GenerationResult& run) {
  return series.speculative_tokens == 0 ? static_cast<int64_t>(run.output_token_ids.size()) - 1 : run.speculation.rounds();
}

/// Median over the turns, each of which ran both kinds one soon after the other.
double verify_of_plain(const BenchSeries& plain, const BenchSeries& series) {
  std::vector<double> ratios;
  for (size_t turn = 0; turn < series.runs.size(); ++turn) {
    const auto step_ms = [turn](const BenchSeries& of) {
      const GenerationResult& run = of.runs[turn];
      return run.timing.verify_ms / static_cast<double>(std::max<int64_t>(steps_of(of, run), 1));
    };
    if (step_ms(plain) > 0.0) ratios.push_back(step_ms(series) / step_ms(plain));
  }
  return ratios.empty() ? 0.0 : median(std::move(ratios));
}

Figures figures_of(const BenchReport& report, const BenchSeries& series) {
  Figures figures{.run = &median_run(series),
                  .prefill_tokens_per_second = prefill_speed(report, series),
                  .tokens_per_second = median_speed(series)};
  const double plain = median_speed(report.series.front());
  figures.speedup = plain > 0.0 ? figures.tokens_per_second / plain : 0.0;
  const auto tokens = static_cast<int64_t>(figures.run->output_token_ids.size()) - 1;
  figures.steps = steps_of(series, *figures.run);
  figures.verify_of_plain = verify_of_plain(report.series.front(), series);
  if (figures.steps > 0) {
    const auto steps = static_cast<double>(figures.steps);
    figures.tokens_per_step = static_cast<double>(tokens) / steps;
    figures.host_us_per_step = 1000.0 * figures.run->timing.host_ms / steps;
  }
  const double device_ms = figures.run->timing.draft_ms + figures.run->timing.verify_ms;
  if (device_ms > 0.0) {
    figures.bytes_per_second =
        static_cast<double>(series.bytes_per_step) * static_cast<double>(figures.steps) * 1000.0 / device_ms;
    figures.bandwidth_share = *figures.bytes_per_second / report.read_bandwidth.bytes_per_second;
  }
  return figures;
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json series_json(const BenchReport& report, const BenchSeries& series) {
  const Figures figures = figures_of(report, series);
  const GenerationTiming& timing = figures.run->timing;
  Json json{{"speculative_tokens", series.speculative_tokens},
            {"prefill_tokens_per_second", figures.prefill_tokens_per_second},
            {"tokens_per_second", figures.tokens_per_second},
            {"speedup", figures.speedup},
            {"steps", figures.steps},
            {"mean_tokens_per_step", figures.tokens_per_step},
            {"timing_ms",
             {{"decode", timing.decode_ms}, {"draft", timing.draft_ms}, {"verify", timing.verify_ms}, {"host", timing.host_ms}}},
            {"host_us_per_step", figures.host_us_per_step},
            {"verify_of_plain_step", figures.verify_of_plain},
            {"bytes_per_step", series.bytes_per_step},
            {"bytes_per_second", optional_json(figures.bytes_per_second)},
            {"bandwidth_share", optional_json(figures.bandwidth_share)}};
  if (series.speculative_tokens > 0) {
    const SpeculationStats& stats = figures.run->speculation;
    json["mean_tokens_per_round"] = stats.mean_tokens_per_round();
    json["acceptance_by_position"] = stats.acceptance_by_position(series.speculative_tokens);
    json["identical"] = series.identical;
  }
  return json;
}

}  // namespace

bool BenchReport::identical() const { return std::ranges::all_of(series, &BenchSeries::identical); }

std::string to_json(const BenchReport& report) {
  Json speculative = Json::array();
  for (size_t i = 1; i < report.series.size(); ++i) speculative.push_back(series_json(report, report.series[i]));
  const Json json{{"model", report.model},
                  {"backend", report.backend},
                  {"device", report.device},
                  {"threads", report.num_threads},
                  {"prefill_precision", report.prefill_precision},
                  {"activations", report.activations},
                  {"kv_dtype", report.kv_dtype},
                  {"draft_kv_dtype", report.draft_kv_dtype},
                  {"draft_precision", report.draft ? draft_json(*report.draft) : Json()},
                  {"prompt_tokens", report.prompt_tokens},
                  {"max_tokens", report.max_tokens},
                  {"repeat", report.series.front().runs.size()},
                  {"forced_accepts", report.forced_accepts},
                  {"read_bandwidth_bytes_per_second", report.read_bandwidth.bytes_per_second},
                  {"read_bandwidth_method", report.read_bandwidth.method},
                  {"prefill_tokens_per_second", prefill_speed(report, report.series.front())},
                  {"plain", series_json(report, report.series.front())},
                  {"speculative", speculative}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_table(const BenchReport& report) {
  std::string out = fmt::format("{} on {} ({}), {} threads, prefill {}, activations {}, KV cache {}, of the drafter {}\n",
                                report.model, report.device, report.backend, report.num_threads, report.prefill_precision,
                                report.activations, report.kv_dtype, report.draft_kv_dtype);
  if (report.draft) out += fmt::format("draft head: {}\n", stored_text(*report.draft));
  out += fmt::format("{} prompt tokens, {} generated, medians of {} runs", report.prompt_tokens, report.max_tokens,
                     report.series.front().runs.size());
  if (!report.forced_accepts.empty()) out += fmt::format(", accept counts forced to {}", fmt::join(report.forced_accepts, ","));
  out += '\n';
  out += fmt::format("measured read bandwidth {:.1f} GB/s ({})\n", report.read_bandwidth.bytes_per_second / 1e9,
                     report.read_bandwidth.method);
  out += fmt::format("prefill {:.1f} tokens/s", prefill_speed(report, report.series.front()));
  if (report.series.size() > 1)
    out += fmt::format(", with the draft head's rows {:.1f}", prefill_speed(report, report.series.back()));
  out += "\n\n";
  out += fmt::format("{:>6} {:>10} {:>9} {:>12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>12} {:>8} {:>7} {:>10}\n", "drafts", "tokens/s",
                     "speed-up", "tokens/step", "draft", "verify", "host", "host us", "verify x", "MB/step", "GB/s", "share",
                     "identical");
  for (const BenchSeries& series : report.series) {
    const Figures figures = figures_of(report, series);
    const GenerationTiming& timing = figures.run->timing;
    const auto share = [&timing](double ms) { return fmt::format("{:.1f} %", 100.0 * ms / timing.decode_ms); };
    out += fmt::format("{:>6} {:>10.1f} {:>8.2f}x {:>12.2f} {:>8} {:>8} {:>8} {:>8.1f} {:>8.2f} {:>12.2f} {:>8} {:>7} {:>10}\n",
                       series.speculative_tokens, figures.tokens_per_second, figures.speedup, figures.tokens_per_step,
                       share(timing.draft_ms), share(timing.verify_ms), share(timing.host_ms), figures.host_us_per_step,
                       figures.verify_of_plain, static_cast<double>(series.bytes_per_step) / 1e6,
                       figures.bytes_per_second ? fmt::format("{:.1f}", *figures.bytes_per_second / 1e9) : "-",
                       figures.bandwidth_share ? fmt::format("{:.0f} %", 100.0 * *figures.bandwidth_share) : "-",
                       series.speculative_tokens == 0 ? "" : (series.identical ? "yes" : "no"));
  }
  return out;
}

}  // namespace foretoken::cli
