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

Json speculation_json(const GenerationReport& report, const SpeculationStats& stats) {
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

Json prompt_json(const GenerationReport& report, const PromptReport& prompt) {
  const GenerationResult& result = prompt.result;
  const GenerationTiming& timing = result.timing;
  Json json{{"prompt_tokens", prompt.prompt_tokens},
            {"cached_prompt_tokens", result.num_cached_tokens},
            {"output_token_ids", result.output_token_ids},
            {"text", prompt.text ? Json(*prompt.text) : Json(nullptr)},
            {"finish_reason", to_string(result.finish_reason)},
            {"preemptions", result.num_preemptions},
            {"timing_ms",
             {{"prefill", timing.prefill_ms},
              {"decode", timing.decode_ms},
              {"draft", timing.draft_ms},
              {"verify", timing.verify_ms},
              {"host", timing.host_ms}}},
            {"decode_tokens_per_second", decode_tokens_per_second(result)},
            {"speculation", speculation_json(report, result.speculation)}};
  if (!report.self_checked) return json;
  const SelfCheckResult& check = result.self_check;
  json["self_check"] = {{"rows_checked", check.rows_checked},
                        {"rows_different", check.rows_different},
                        {"first_difference", check.rows_different > 0 ? Json(check.first_difference) : Json(nullptr)}};
  return json;
}

/// Of all texts.
struct Totals {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t preemptions = 0;
  SpeculationStats speculation{};
  SelfCheckResult self_check{};
};

Totals totals_of(const std::vector<PromptReport>& prompts) {
  Totals totals;
  for (const auto& [prompt_tokens, text, result] : prompts) {
    totals.prompt_tokens += prompt_tokens;
    totals.cached_tokens += result.num_cached_tokens;
    totals.output_tokens += static_cast<int64_t>(result.output_token_ids.size());
    totals.preemptions += result.num_preemptions;
    totals.speculation.drafted += result.speculation.drafted;
    auto& rounds = totals.speculation.accepted_per_round;
    rounds.insert(rounds.end(), result.speculation.accepted_per_round.begin(), result.speculation.accepted_per_round.end());
    totals.self_check.rows_checked += result.self_check.rows_checked;
    totals.self_check.rows_different += result.self_check.rows_different;
    if (totals.self_check.first_difference < 0) totals.self_check.first_difference = result.self_check.first_difference;
  }
  return totals;
}

std::string speculation_figures(const GenerationReport& report, const SpeculationStats& stats) {
  if (report.speculative_tokens == 0) return "speculation  off\n";
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

std::string figures_of_one(const GenerationReport& report) {
  const auto& [prompt_tokens, text, result] = report.prompts.front();
  const GenerationTiming& timing = result.timing;
  const auto share = [&timing](double ms) { return timing.decode_ms > 0.0 ? 100.0 * ms / timing.decode_ms : 0.0; };
  std::string out =
      fmt::format("prompt       {} tokens, {:.0f} tokens/s\n", prompt_tokens, per_second(prompt_tokens, timing.prefill_ms));
  out += fmt::format("output       {} tokens, {:.1f} tokens/s, ended by {}\n", result.output_token_ids.size(),
                     decode_tokens_per_second(result),
                     result.finish_reason == FinishReason::kStop ? "an end token" : "the length limit");
  out += speculation_figures(report, result.speculation);
  return out + fmt::format(
                   "time         load {:.1f} ms, prefill {:.2f} ms, decode {:.2f} ms (draft {:.0f} %, verify {:.0f} %, host "
                   "{:.0f} %)\n",
                   report.load_ms, timing.prefill_ms, timing.decode_ms, share(timing.draft_ms), share(timing.verify_ms),
                   share(timing.host_ms));
}

std::string figures_of_many(const GenerationReport& report, const Totals& totals) {
  std::string out = fmt::format("prompts      {}, {} tokens, {} of them from the prefix cache\n", report.prompts.size(),
                                totals.prompt_tokens, totals.cached_tokens);
  out += fmt::format("output       {} tokens, {:.1f} tokens/s in all, {} preemptions\n", totals.output_tokens,
                     per_second(totals.output_tokens, report.texts_ms), totals.preemptions);
  out += speculation_figures(report, totals.speculation);
  return out + fmt::format("time         load {:.1f} ms, texts {:.2f} ms\n", report.load_ms, report.texts_ms);
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

bool GenerationReport::is_different() const {
  if (compare && !compare->identical) return true;
  return std::ranges::any_of(prompts, [](const PromptReport& prompt) { return prompt.result.self_check.rows_different > 0; });
}

std::string to_json(const GenerationReport& report) {
  Json json{{"model", report.model},
            {"backend", report.backend},
            {"activations", report.activations},
            {"kv_dtype", report.kv_dtype},
            {"draft_kv_dtype", report.draft_kv_dtype}};
  if (report.prompts.size() == 1) {
    json.update(prompt_json(report, report.prompts.front()));
    json["timing_ms"]["load"] = report.load_ms;
  } else {
    json["timing_ms"] = {{"load", report.load_ms}, {"texts", report.texts_ms}};
    json["results"] = Json::array();
    for (const PromptReport& prompt : report.prompts) json["results"].push_back(prompt_json(report, prompt));
  }
  if (report.compare) {
    json["compare"] = {{"plain_tokens_per_second", report.compare->plain_tokens_per_second},
                       {"speedup", report.compare->speedup},
                       {"identical", report.compare->identical}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_figures(const GenerationReport& report) {
  const Totals totals = totals_of(report.prompts);
  std::string out = report.prompts.size() == 1 ? figures_of_one(report) : figures_of_many(report, totals);
  if (report.compare) {
    out +=
        fmt::format("compare      plain {:.1f} tokens/s, speed-up {:.2f}x, identical: {}\n",
                    report.compare->plain_tokens_per_second, report.compare->speedup, report.compare->identical ? "yes" : "no");
  }
  if (report.self_checked) {
    const SelfCheckResult& check = totals.self_check;
    out += fmt::format("self-check   {} rows of logits (their time is in host), {} different", check.rows_checked,
                       check.rows_different);
    out += check.rows_different > 0 ? fmt::format(", the first at output token {}\n", check.first_difference) : "\n";
  }
  return out;
}

}  // namespace foretoken::cli
