#include "apps/foretoken/generation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace foretoken::cli {
namespace {

using Json = nlohmann::ordered_json;

double per_second(int64_t count, double milliseconds) {
  return count > 0 && milliseconds > 0.0 ? static_cast<double>(count) * 1000.0 / milliseconds : 0.0;
}

Json speculation_json(const GenerationReport& report) {
  const SpeculationStats& stats = report.result.speculation;
  return {{"enabled", report.speculative_tokens > 0},
          {"speculative_tokens", report.speculative_tokens},
          {"draft_precision", report.draft ? draft_json(*report.draft) : Json()},
          {"rounds", stats.rounds()},
          {"drafted", stats.drafted},
          {"accepted", stats.accepted()},
          {"accepted_per_round", stats.accepted_per_round},
          {"acceptance_by_position", stats.acceptance_by_position(report.speculative_tokens)},
          {"mean_tokens_per_round", stats.mean_tokens_per_round()}};
}

std::string speculation_figures(const GenerationReport& report) {
  if (report.speculative_tokens == 0) return "speculation  off\n";
  const SpeculationStats& stats = report.result.speculation;
  std::string out =
      fmt::format("speculation  K={}: {} rounds, {} drafted, {} accepted, {:.2f} tokens per round\n", report.speculative_tokens,
                  stats.rounds(), stats.drafted, stats.accepted(), stats.mean_tokens_per_round());
  if (report.draft) out += fmt::format("draft head   {}\n", stored_text(*report.draft));
  if (stats.rounds() == 0) return out;
  out += "acceptance ";
  int64_t position = 0;
  for (const double share : stats.acceptance_by_position(report.speculative_tokens)) {
    out += fmt::format("  {}: {:.0f} %", ++position, 100.0 * share);
  }
  return out + '\n';
}

}  // namespace

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

double decode_tokens_per_second(const GenerationResult& result) {
  return per_second(static_cast<int64_t>(result.output_token_ids.size()) - 1, result.timing.decode_ms);
}

std::string to_json(const GenerationReport& report) {
  const GenerationResult& result = report.result;
  const GenerationTiming& timing = result.timing;
  Json json{{"model", report.model},
            {"backend", report.backend},
            {"activations", report.activations},
            {"kv_dtype", report.kv_dtype},
            {"draft_kv_dtype", report.draft_kv_dtype},
            {"prompt_tokens", report.prompt_tokens},
            {"output_token_ids", result.output_token_ids},
            {"text", report.text ? Json(*report.text) : Json(nullptr)},
            {"finish_reason", to_string(result.finish_reason)},
            {"timing_ms",
             {{"load", report.load_ms},
              {"prefill", timing.prefill_ms},
              {"decode", timing.decode_ms},
              {"draft", timing.draft_ms},
              {"verify", timing.verify_ms},
              {"host", timing.host_ms}}},
            {"decode_tokens_per_second", decode_tokens_per_second(result)},
            {"speculation", speculation_json(report)}};
  if (report.compare) {
    json["compare"] = {{"plain_tokens_per_second", report.compare->plain_tokens_per_second},
                       {"speedup", report.compare->speedup},
                       {"identical", report.compare->identical}};
  }
  if (report.self_checked) {
    const SelfCheckResult& check = result.self_check;
    json["self_check"] = {{"rows_checked", check.rows_checked},
                          {"rows_different", check.rows_different},
                          {"first_difference", check.rows_different > 0 ? Json(check.first_difference) : Json(nullptr)}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_figures(const GenerationReport& report) {
  const GenerationResult& result = report.result;
  const GenerationTiming& timing = result.timing;
  const auto share = [&timing](double ms) { return timing.decode_ms > 0.0 ? 100.0 * ms / timing.decode_ms : 0.0; };
  std::string out = fmt::format("prompt       {} tokens, {:.0f} tokens/s\n", report.prompt_tokens,
                                per_second(report.prompt_tokens, timing.prefill_ms));
  out += fmt::format("output       {} tokens, {:.1f} tokens/s, ended by {}\n", result.output_token_ids.size(),
                     decode_tokens_per_second(result),
                     result.finish_reason == FinishReason::kStop ? "an end token" : "the length limit");
  out += speculation_figures(report);
  out += fmt::format(
      "time         load {:.1f} ms, prefill {:.2f} ms, decode {:.2f} ms (draft {:.0f} %, verify {:.0f} %, host {:.0f} %)\n",
      report.load_ms, timing.prefill_ms, timing.decode_ms, share(timing.draft_ms), share(timing.verify_ms),
      share(timing.host_ms));
  if (report.compare) {
    out +=
        fmt::format("compare      plain {:.1f} tokens/s, speed-up {:.2f}x, identical: {}\n",
                    report.compare->plain_tokens_per_second, report.compare->speedup, report.compare->identical ? "yes" : "no");
  }
  if (report.self_checked) {
    const SelfCheckResult& check = result.self_check;
    out += fmt::format("self-check   {} rows of logits (their time is in host), {} different", check.rows_checked,
                       check.rows_different);
    out += check.rows_different > 0 ? fmt::format(", the first at output token {}\n", check.first_difference) : "\n";
  }
  return out;
}

}  // namespace foretoken::cli
