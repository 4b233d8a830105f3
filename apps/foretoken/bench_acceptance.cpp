// `foretoken bench acceptance`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/foretoken/console.h"
#include "apps/foretoken/draft_report.h"
#include "apps/foretoken/engine_setup.h"
#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/prompt_list.h"
#include "core/error.h"
#include "models/weight_map.h"
#include "speculative/acceptance.h"
#include "speculative/drafter_parts.h"

namespace foretoken::cli {
namespace {

using Json = nlohmann::ordered_json;
using Prompts = std::vector<std::vector<int32_t>>;

constexpr std::array<std::string_view, 16> kQuestions{
    "What does \"eclectic\" mean?",
    "What is a garbage collector?",
    "What is the difference between a process and a thread?",
    "How do I create an index on a table?",
    "What does \"to wander\" mean?",
    "What is a lighthouse?",
    "How do I read a file line by line in Python?",
    "What is a B-tree?",
    "What does \"serendipity\" mean?",
    "What is a violin?",
    "How do I declare a function in Rust?",
    "What is a build target in CMake?",
    "What does \"brittle\" mean?",
    "What is a transaction?",
    "What is a kludge?",
    "How do I handle an error in JavaScript?",
};

const DraftPrecision kCheckpointPrecision{.lm_head = {.choice = DraftLmHead::Choice::kCheckpoint}};

/// One combination of formats, and what came of it.
struct Combination {
  DraftPrecision precision;
  DraftFormats formats{};  // what that comes to on this device
  DraftReport report{};
  uint64_t step_bytes = 0;  // weights that a draft pass reads
  PrefixAcceptance acceptance{};
};

struct AcceptanceReport {
  std::string model;
  std::string backend;
  std::string device;
  std::string prefill_precision;
  std::string activations;
  std::string kv_dtype;
  std::string draft_kv_dtype;
  size_t num_prompts = 0;
  int64_t num_tokens = 0;                   // of all texts
  std::vector<Combination> combinations{};  // the checkpoint's own precision first
};

/// Every combination of the listed formats after the checkpoint's own. Default lists leave out what the device lacks.
std::vector<Combination> combinations(const Options& options, Engine& engine, const WeightPlan& plan) {
  const bool asked = options.has("draft-precision") || options.has("draft-lm-head");
  std::vector<Combination> all{{.precision = kCheckpointPrecision}};
  const auto add = [&](const DraftPrecision& precision) {
    try {
      all.push_back({.precision = precision, .formats = choose_draft_formats(engine.backend(), plan, precision)});
    } catch (const Error& error) {
      if (asked || error.code() != ErrorCode::kUnsupported) throw;
      if (!options.flag("quiet")) print_message("note", std::string("left out: ") + error.what());
    }
  };
  const auto fc = parse_option(options, "draft-fc", parse_draft_precision);
  const auto experts = parse_option(options, "draft-experts", parse_draft_precision);
  for (const auto& linears : parse_list(options, "draft-precision", parse_draft_precision)) {
    for (const DraftLmHead& lm_head : parse_list(options, "draft-lm-head", parse_draft_lm_head)) {
      const bool is_checkpoint = !linears && !fc && !experts && lm_head.choice == DraftLmHead::Choice::kCheckpoint;
      if (!is_checkpoint) add({.linears = linears, .fc = fc, .experts = experts, .lm_head = lm_head});
    }
  }
  return all;
}

/// A head of its own for each combination, all along the same texts.
void measure(Engine& engine, const Prompts& prompts, const MeasuredText& wanted, AcceptanceReport& report) {
  std::vector<DraftHead> heads;
  std::vector<std::unique_ptr<MetadataBuffer>> rounds;
  std::vector<std::unique_ptr<MtpProposer>> proposers;
  std::vector<MeasuredProposer> measured;
  const LoadedModel& model = engine.model();
  for (Combination& combination : report.combinations) {
    heads.push_back(
        make_draft_head(engine.backend(), engine.stream(), model.drafter(), combination.formats, engine.draft_vocab()));
    const DraftHead& head = heads.back();
    rounds.push_back(std::make_unique<MetadataBuffer>());
    proposers.push_back(make_proposer(engine.backend(), model.config, head, engine.proposer()->options(), *rounds.back()));
    rounds.back()->allocate(engine.backend());
    measured.push_back({.proposer = proposers.back().get()});
    combination.report = draft_report(combination.precision, head);
    combination.step_bytes = draft_step_bytes(head, model.config);
  }
  for (const std::vector<int32_t>& prompt : prompts) {
    const auto text = measure_prefix_acceptance(engine.stream(), engine.runner(), measured, prompt, wanted);
    report.num_tokens += static_cast<int64_t>(text.size());
  }
  for (size_t i = 0; i < measured.size(); ++i) report.combinations[i].acceptance = measured[i].acceptance;
}

std::string to_json(const AcceptanceReport& report) {
  Json combinations = Json::array();
  const PrefixAcceptance& checkpoint = report.combinations.front().acceptance;
  for (const Combination& combination : report.combinations) {
    Json shares = Json::array();
    Json losses = Json::array();
    for (int64_t j = 1; j <= PrefixAcceptance::kPositions; ++j) {
      shares.push_back(combination.acceptance.share(j));
      losses.push_back(checkpoint.share(j) - combination.acceptance.share(j));
    }
    combinations.push_back({{"draft_precision", draft_json(combination.report)},
                            {"draft_step_bytes", combination.step_bytes},
                            {"prefix_acceptance", shares},
                            {"loss", losses}});
  }
  const Json json{{"model", report.model},
                  {"backend", report.backend},
                  {"device", report.device},
                  {"prefill_precision", report.prefill_precision},
                  {"activations", report.activations},
                  {"kv_dtype", report.kv_dtype},
                  {"draft_kv_dtype", report.draft_kv_dtype},
                  {"prompts", report.num_prompts},
                  {"tokens", report.num_tokens},
                  {"starts", checkpoint.starts},
                  {"combinations", combinations}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_table(const AcceptanceReport& report) {
  const PrefixAcceptance& checkpoint = report.combinations.front().acceptance;
  std::string out =
      fmt::format("{} on {} ({}), prefill {}, activations {}, KV cache {}, of the drafter {}\n", report.model, report.device,
                  report.backend, report.prefill_precision, report.activations, report.kv_dtype, report.draft_kv_dtype);
  out += fmt::format("{} prompts, {} tokens, {} starts; share of starts whose first j drafts hold (loss)\n\n", report.num_prompts,
                     report.num_tokens, checkpoint.starts);
  out += fmt::format("{:<10} {:<10} {:>9}", "head", "LM head", "MB/draft");
  for (int64_t j = 1; j <= PrefixAcceptance::kPositions; ++j) out += fmt::format(" {:>16}", j);
  out += '\n';
  for (const Combination& combination : report.combinations) {
    out += fmt::format("{:<10} {:<10} {:>9.2f}", combination.report.requested, combination.report.requested_lm_head,
                       static_cast<double>(combination.step_bytes) / 1e6);
    for (int64_t j = 1; j <= PrefixAcceptance::kPositions; ++j) {
      const double share = combination.acceptance.share(j);
      out += fmt::format("  {:.4f} ({:+.4f})", share, checkpoint.share(j) - share);
    }
    out += '\n';
  }
  return out;
}

}  // namespace

int run_bench_acceptance(const Options& options) {
  check_prompt_list_options(options);
  const int64_t max_tokens = options.integer("max-tokens", PrefixAcceptance::kPositions + 1, INT32_MAX);
  EngineOptions engine_options = cli::engine_options(options);
  engine_options.draft_precision = kCheckpointPrecision;
  engine_options.max_speculative_tokens = PrefixAcceptance::kPositions;
  engine_options.require_speculation = true;
  Engine engine(std::move(engine_options));
  const std::unique_ptr<WeightPlan> plan = plan_weights(engine.source(), engine.config());
  AcceptanceReport report{.model = engine.model_name(),
                          .backend = engine.backend().capabilities().backend,
                          .device = engine.backend().capabilities().device_name,
                          .prefill_precision = std::string(precision_name(engine.prefill_precision())),
                          .activations = std::string(dtype_name(engine.activation_dtype())),
                          .kv_dtype = std::string(dtype_name(engine.kv_dtype())),
                          .draft_kv_dtype = std::string(dtype_name(engine.draft_kv_dtype())),
                          .combinations = combinations(options, engine, *plan)};
  const Prompts prompts = read_prompt_list(options, engine, kQuestions);
  report.num_prompts = prompts.size();
  const auto longest = std::ranges::max(prompts, {}, [](const auto& prompt) { return prompt.size(); });
  load_engine(engine, static_cast<int64_t>(longest.size()), max_tokens, options.flag("quiet"));
  const MeasuredText wanted{.max_tokens = max_tokens,
                            .stop_token_ids = engine.config().eos_token_ids,
                            .draft_prompt_rows = engine.options().draft_prompt_rows};
  measure(engine, prompts, wanted, report);
  fmt::print("{}", options.flag("json") ? to_json(report) : to_table(report));
  return kExitOk;
}

}  // namespace foretoken::cli
