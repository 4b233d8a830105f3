// `foretoken generate`.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include "apps/foretoken/console.h"
#include "apps/foretoken/engine_setup.h"
#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/generation_report.h"
#include "apps/foretoken/prompt.h"
#include "apps/foretoken/sampling_options.h"
#include "core/error.h"

namespace foretoken::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct GenerateOptions {
  int64_t max_tokens = 0;
  DepthPolicySpec depth{};
  bool compare = false;
  bool self_check = false;
  bool json = false;
  bool quiet = false;
};

GenerateOptions generate_options(const Options& options) {
  check_prompt_options(options);
  GenerateOptions wanted{.max_tokens = options.integer("max-tokens", 1, INT32_MAX),
                         .depth = depth_option(options),
                         .compare = options.flag("compare"),
                         .self_check = options.flag("self-check"),
                         .json = options.flag("json"),
                         .quiet = options.flag("quiet")};
  if (wanted.compare && wanted.depth.max_drafts == 0) options.fail("--compare needs at least one speculative token");
  if (wanted.compare && wanted.self_check) {
    options.fail("--compare measures speed and --self-check slows every step: use one at a time");
  }
  const SamplingParams sampling = sampling_params(options, {});
  if (wanted.self_check && !is_plain_greedy(sampling)) options.fail("--self-check compares greedy texts: no sampling options");
  if (wanted.compare && sampling.temperature > 0.0F && sampling.draft_sampling != DraftSampling::kGreedy) {
    options.fail("--compare at a temperature needs --draft-sampling greedy: drafts that are sampled change the text of a seed");
  }
  return wanted;
}

void write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  finish_stdout();
}

/// To stdout as it comes: text, or ids separated by commas.
void print_as_it_comes(GenerationOptions& options, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) {
    options.on_text = [](std::string_view text) { write(text); };
  } else {
    options.on_token = [is_first = true](int32_t id) mutable {
      write((is_first ? "" : ",") + std::to_string(id));
      is_first = false;
    };
  }
}

/// Both kinds of step once, so that neither side of a comparison pays for touching memory the first time.
void warm_up(Engine& engine, int32_t token_id, int64_t speculative_tokens) {
  for (const int64_t depth : {speculative_tokens, int64_t{0}}) {
    GenerationOptions options;
    options.max_tokens = 2;
    options.num_speculative_tokens = depth;
    static_cast<void>(engine.generator().generate(std::span(&token_id, 1), options));
  }
}

/// Decodes plainly as well. Texts that take milliseconds are decoded again, both ways in turn, and the medians are compared.
PlainComparison compare_with_plain(Engine& engine, std::span<const int32_t> prompt, GenerationOptions options,
                                   const GenerationResult& speculative) {
  constexpr std::chrono::milliseconds kEnough{200};
  constexpr size_t kMostRuns = 25;
  options.on_token = nullptr;
  options.on_text = nullptr;
  const int64_t depth = options.num_speculative_tokens;
  std::vector<double> speculative_speeds{decode_tokens_per_second(speculative)};
  std::vector<double> plain_speeds;
  bool identical = true;
  const auto decode = [&](int64_t num_speculative_tokens, std::vector<double>& speeds) {
    options.num_speculative_tokens = num_speculative_tokens;
    const GenerationResult result = engine.generator().generate(prompt, options);
    identical &= result.output_token_ids == speculative.output_token_ids;
    speeds.push_back(decode_tokens_per_second(result));
  };
  const Clock::time_point begin = Clock::now();
  decode(0, plain_speeds);
  while (Clock::now() - begin < kEnough && plain_speeds.size() < kMostRuns) {
    decode(depth, speculative_speeds);
    decode(0, plain_speeds);
  }
  const double plain = median(plain_speeds);
  return {.plain_tokens_per_second = plain,
          .speedup = plain > 0.0 ? median(speculative_speeds) / plain : 0.0,
          .identical = identical};
}

}  // namespace

int run_generate(const Options& options) {
  const GenerateOptions wanted = generate_options(options);
  EngineOptions engine_options = cli::engine_options(options);
  engine_options.max_speculative_tokens = wanted.depth.max_drafts;
  if (wanted.depth.kind != DepthPolicySpec::Kind::kFixed) engine_options.depth_policy = wanted.depth;
  engine_options.require_speculation = wanted.depth.max_drafts > 0 && (options.has("speculative-tokens") || wanted.compare);
  engine_options.self_check = wanted.self_check;
  engine_options.draft_precision = draft_precision_options(options);
  engine_options.draft_rows = parse_option(options, "draft-rows", parse_row_policy);
  engine_options.draft_confidence_stop = confidence_stop_option(options);
  engine_options.sampling = sampler_options(sampling_params(options, {}));

  const Clock::time_point begin = Clock::now();
  Engine engine(std::move(engine_options));
  const std::vector<int32_t> prompt = read_prompt(options, engine);
  load_engine(engine, static_cast<int64_t>(prompt.size()), wanted.max_tokens, wanted.quiet);

  GenerationReport report{.model = engine.model_name(),
                          .backend = engine.backend().capabilities().backend,
                          .activations = std::string(dtype_name(engine.activation_dtype())),
                          .kv_dtype = std::string(dtype_name(engine.kv_dtype())),
                          .draft_kv_dtype = std::string(dtype_name(engine.draft_kv_dtype())),
                          .prompt_tokens = static_cast<int64_t>(prompt.size()),
                          .load_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count(),
                          .speculative_tokens = engine.can_speculate() ? wanted.depth.max_drafts : 0,
                          .self_checked = wanted.self_check};
  if (engine.can_speculate()) report.draft = draft_report(engine.options().draft_precision, *engine.draft_head());
  GenerationOptions generation;
  generation.max_tokens = wanted.max_tokens;
  generation.num_speculative_tokens = report.speculative_tokens;
  generation.stop_token_ids = engine.config().eos_token_ids;
  generation.sampling = sampling_params(options, generation.stop_token_ids);
  if (options.has("stop")) generation.stop_strings = {options.required_text("stop")};
  if (!wanted.json) print_as_it_comes(generation, engine.tokenizer());
  if (wanted.compare) warm_up(engine, prompt.front(), wanted.depth.max_drafts);
  report.result = engine.generator().generate(prompt, generation);
  if (!wanted.json) write("\n");
  if (wanted.compare) report.compare = compare_with_plain(engine, prompt, generation, report.result);

  if (wanted.json) {
    if (engine.tokenizer() != nullptr) report.text = report.result.text;
    fmt::print("{}", to_json(report));
  } else if (!wanted.quiet) {
    fmt::print(stderr, "{}", to_figures(report));
  }
  const bool different = (report.compare && !report.compare->identical) || report.result.self_check.rows_different > 0;
  return different ? kExitDifferent : kExitOk;
}

}  // namespace foretoken::cli
