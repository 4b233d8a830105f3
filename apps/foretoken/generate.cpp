// `foretoken generate`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
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

/// Texts on stdout in the order of their prompts, each as it comes once it is its turn.
class TextsInOrder {
 public:
  /// More than one text come with lines that number them.
  explicit TextsInOrder(size_t num_texts) : waiting_(num_texts), is_finished_(num_texts) {}

  /// Before the first text, and after each but the last.
  void begin() {
    if (current_ == waiting_.size()) return;
    if (waiting_.size() > 1) write(fmt::format("== {} ==\n", current_ + 1));
    write(waiting_[current_]);
  }
  void add(size_t text_idx, std::string_view piece) {
    if (text_idx == current_) {
      write(piece);
    } else {
      waiting_[text_idx] += piece;
    }
  }
  void finish(size_t text_idx) {
    is_finished_[text_idx] = true;
    while (current_ < is_finished_.size() && is_finished_[current_]) {
      write("\n");
      ++current_;
      begin();
    }
  }

 private:
  std::vector<std::string> waiting_;
  std::vector<bool> is_finished_;
  size_t current_ = 0;
};

/// Text, or ids separated by commas.
void print_as_it_comes(GenerationOptions& options, size_t text_idx, bool is_text, TextsInOrder& texts) {
  if (is_text) {
    options.on_text = [&texts, text_idx](std::string_view text) { texts.add(text_idx, text); };
  } else {
    options.on_token = [&texts, text_idx, is_first = true](int32_t id) mutable {
      texts.add(text_idx, (is_first ? "" : ",") + std::to_string(id));
      is_first = false;
    };
  }
}

/// All prompts at once. Prints the texts unless `is_silent`.
std::vector<GenerationResult> generate_all(Engine& engine, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerationOptions& options, bool is_silent) {
  GenerationEngine& generator = engine.generator();
  std::optional<TextsInOrder> texts;
  if (!is_silent) texts.emplace(prompts.size());
  std::vector<RequestId> ids;
  for (size_t i = 0; i < prompts.size(); ++i) {
    GenerationOptions own = options;
    if (texts) print_as_it_comes(own, i, engine.tokenizer() != nullptr, *texts);
    ids.push_back(generator.submit(prompts[i], std::move(own)));
  }
  if (texts) texts->begin();
  std::vector<std::optional<GenerationResult>> results(prompts.size());
  for (size_t num_left = prompts.size(); num_left > 0;) {
    generator.step();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (results[i] || !generator.is_finished(ids[i])) continue;
      results[i] = generator.take_result(ids[i]);
      if (texts) texts->finish(i);
      --num_left;
    }
  }
  std::vector<GenerationResult> all;
  for (std::optional<GenerationResult>& result : results) all.push_back(std::move(*result));
  return all;
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
  const PromptSources sources = prompt_sources(options);
  if (wanted.compare && sources.size() > 1) options.fail("--compare takes one prompt");
  EngineOptions engine_options = decoding_options(options);
  set_memory(options, sources.size(), engine_options);
  engine_options.max_speculative_tokens = wanted.depth.max_drafts;
  if (wanted.depth.kind != DepthPolicySpec::Kind::kFixed) engine_options.depth_policy = wanted.depth;
  engine_options.require_speculation = wanted.depth.max_drafts > 0 && (options.has("speculative-tokens") || wanted.compare);
  engine_options.self_check = wanted.self_check;
  engine_options.draft_rows = parse_option(options, "draft-rows", parse_row_policy);
  engine_options.sampling = sampler_options(sampling_params(options, {}));

  Clock::time_point begin = Clock::now();
  const auto since_begin_ms = [&begin] { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); };
  Engine engine(std::move(engine_options));
  const std::vector<std::vector<int32_t>> prompts = encode_prompts(sources, engine);
  const auto longest = std::ranges::max(prompts, {}, [](const auto& prompt) { return prompt.size(); });
  load_engine(engine, static_cast<int64_t>(longest.size()), wanted.max_tokens, wanted.quiet);

  GenerationReport report{.model = engine.model_name(),
                          .backend = engine.backend().capabilities().backend,
                          .activations = std::string(dtype_name(engine.activation_dtype())),
                          .kv_dtype = std::string(dtype_name(engine.kv_dtype())),
                          .draft_kv_dtype = std::string(dtype_name(engine.draft_kv_dtype())),
                          .load_ms = since_begin_ms(),
                          .speculative_tokens = engine.can_speculate() ? wanted.depth.max_drafts : 0,
                          .self_checked = wanted.self_check};
  if (engine.can_speculate()) report.draft = draft_report(engine.options().draft_precision, *engine.draft_head());
  GenerationOptions generation;
  generation.max_tokens = wanted.max_tokens;
  generation.num_speculative_tokens = report.speculative_tokens;
  generation.stop_token_ids = engine.config().eos_token_ids;
  generation.sampling = sampling_params(options, generation.stop_token_ids);
  if (options.has("stop")) generation.stop_strings = {options.required_text("stop")};
  if (wanted.compare) warm_up(engine, prompts.front().front(), wanted.depth.max_drafts);
  begin = Clock::now();
  const std::vector<GenerationResult> results = generate_all(engine, prompts, generation, wanted.json);
  report.texts_ms = since_begin_ms();
  for (size_t i = 0; i < prompts.size(); ++i) {
    PromptReport& prompt = report.prompts.emplace_back();
    prompt.prompt_tokens = static_cast<int64_t>(prompts[i].size());
    prompt.result = results[i];
    if (engine.tokenizer() != nullptr) prompt.text = results[i].text;
  }
  if (wanted.compare) report.compare = compare_with_plain(engine, prompts.front(), generation, results.front());

  if (wanted.json) {
    fmt::print("{}", to_json(report));
  } else if (!wanted.quiet) {
    fmt::print(stderr, "{}", to_figures(report));
  }
  return report.is_different() ? kExitDifferent : kExitOk;
}

}  // namespace foretoken::cli
