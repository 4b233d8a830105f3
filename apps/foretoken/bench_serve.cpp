// `foretoken bench serve`.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "apps/foretoken/engine_setup.h"
#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/output_file.h"
#include "apps/foretoken/prompt_list.h"
#include "apps/foretoken/sampling_options.h"
#include "apps/foretoken/serve_report.h"
#include "apps/foretoken/serve_run.h"
#include "core/error.h"
#include "speculative/batch_bucket.h"

namespace foretoken::cli {
namespace {

constexpr int64_t kMaxDepth = TargetRunner::kMaxVerifyRows - 1;

struct ServeOptions {
  std::vector<double> rates;
  std::vector<RowPolicy> row_policies;
  std::vector<DepthPolicySpec> depth_policies;
  int64_t num_requests = 0;
  IntegerRange prompt_tokens;
  IntegerRange max_tokens;
  SamplingParams sampling{};  // its seed is that of the first prompt
  uint64_t seed = 0;
  int64_t repeat = 0;
  std::vector<int64_t> forced_accepts;
  bool check = false;
  std::optional<std::string> report_path;

  [[nodiscard]] int64_t max_depth() const {
    return std::ranges::max_element(depth_policies, {}, &DepthPolicySpec::max_drafts)->max_drafts;
  }
};

/// Items of the list, where those with a colon that follow each other are one ladder.
std::vector<std::string> depth_policy_texts(const Options& options) {
  std::vector<std::string> texts;
  bool was_step = false;
  for (const std::string& item : options.texts("speculative-tokens")) {
    const bool is_step = item.find(':') != std::string::npos;
    if (is_step && was_step) {
      texts.back() += "," + item;
    } else {
      texts.push_back(item);
    }
    was_step = is_step;
  }
  return texts;
}

std::vector<DepthPolicySpec> depth_policies(const Options& options) {
  std::vector<DepthPolicySpec> specs;
  for (const std::string& text : depth_policy_texts(options)) {
    try {
      DepthPolicySpec spec = parse_depth_policy(text, text == "auto" ? kMostAutoDrafts : kMaxDepth);
      if (std::ranges::find(specs, spec) == specs.end()) specs.push_back(std::move(spec));
    } catch (const Error& error) {
      options.fail(std::string("option --speculative-tokens: ") + error.what());
    }
  }
  return specs;
}

std::vector<RowPolicy> row_policies(const Options& options) {
  std::vector<RowPolicy> policies;
  for (const RowPolicy policy : parse_list(options, "draft-rows", parse_row_policy)) {
    if (std::ranges::find(policies, policy) == policies.end()) policies.push_back(policy);
  }
  return policies;
}

ServeOptions serve_options(const Options& options) {
  check_prompt_list_options(options);
  if (has_prompt_list(options) && options.has("prompt-tokens")) {
    options.fail("--prompt-tokens is the length of random prompts: it goes without --prompts and --token-ids-file");
  }
  ServeOptions wanted{.rates = options.positive_numbers("rate"),
                      .row_policies = row_policies(options),
                      .depth_policies = depth_policies(options),
                      .num_requests = options.integer("requests", 1, 1'000'000),
                      .prompt_tokens = options.integer_range("prompt-tokens", 1, INT32_MAX),
                      .max_tokens = options.integer_range("max-tokens", 1, INT32_MAX),
                      .sampling = sampling_params(options, {}),
                      .seed = static_cast<uint64_t>(options.integer("seed", 0, INT64_MAX)),
                      .repeat = options.integer("repeat", 1, 1000),
                      .forced_accepts = {},
                      .check = options.flag("check"),
                      .report_path = options.text("report")};
  if (wanted.report_path && wanted.report_path->empty()) options.fail("option --report: expected a file, got nothing");
  const bool draws_drafts =
      wanted.max_depth() > 0 && wanted.sampling.temperature > 0.0F && wanted.sampling.draft_sampling != DraftSampling::kGreedy;
  for (const std::string_view option : {"check", "force-accept"}) {
    if (!draws_drafts || !options.has(option)) continue;
    options.fail("--" + std::string(option) +
                 " at a temperature needs --draft-sampling greedy: drafts that are sampled change the text of a seed");
  }
  if (!options.has("force-accept")) return wanted;
  wanted.forced_accepts = options.integers("force-accept", 0, kMaxDepth);
  if (wanted.max_depth() == 0) options.fail("--force-accept needs at least one number of speculative tokens above 0");
  return wanted;
}

ServeLoad read_load(const Options& options, const ServeOptions& wanted, const Engine& engine) {
  auto prompts = has_prompt_list(options) ? read_prompt_list(options, engine)
                                          : random_prompts(static_cast<size_t>(wanted.num_requests), wanted.prompt_tokens,
                                                           engine.config().vocab_size, wanted.seed);
  return make_load(std::move(prompts), static_cast<size_t>(wanted.num_requests), wanted.max_tokens, wanted.seed);
}

/// Serves the load in each way that is asked for.
class ServeBench {
 public:
  ServeBench(Engine& engine, const ServeOptions& wanted, const ServeLoad& load)
      : engine_(engine), wanted_(wanted), load_(load), sampling_(wanted.sampling) {
    if (sampling_.min_tokens > 0) sampling_.stop_token_ids = engine.config().eos_token_ids;
    for (const DepthPolicySpec& spec : wanted.depth_policies) policies_.push_back(engine.make_policy(spec));
    if (wanted.check || !wanted.forced_accepts.empty()) decode_alone();
  }

  [[nodiscard]] std::vector<ServeSeries> measure() {
    const std::vector<Kind> kinds = list_kinds();
    std::vector<ServeSeries> series;
    for (const Kind& kind : kinds) {
      const bool drafts = spec_of(kind).max_drafts > 0;
      series.push_back({.draft_rows = drafts ? std::string(row_policy_name(kind.rows)) : std::string(),
                        .depth_policy = to_string(spec_of(kind)),
                        .rate = kind.rate});
      if (kind.rate == wanted_.rates.front()) warm_up(kind);
    }
    std::vector<std::vector<ServeFigures>> runs(kinds.size());
    // All kinds in turn, so that a machine that slows down or speeds up does so for all of them.
    for (int64_t run = 0; run < wanted_.repeat; ++run) {
      for (size_t i = 0; i < kinds.size(); ++i) {
        const ServeRun served = serve_once(kinds[i], load_);
        if (wanted_.check) series[i].num_different += num_different(served);
        runs[i].push_back(serve_figures(served));
        series[i].output_tokens_per_second.push_back(runs[i].back().output_tokens_per_second);
      }
    }
    for (size_t i = 0; i < series.size(); ++i) {
      std::ranges::sort(runs[i], {}, &ServeFigures::output_tokens_per_second);
      series[i].figures = std::move(runs[i][(runs[i].size() - 1) / 2]);
    }
    return series;
  }

 private:
  /// One way to serve.
  struct Kind {
    RowPolicy rows;
    size_t policy_idx;  // of the depth policy
    double rate;
  };

  [[nodiscard]] const DepthPolicySpec& spec_of(const Kind& kind) const { return wanted_.depth_policies[kind.policy_idx]; }

  /// Plain decoding has no rows, so it is there once.
  [[nodiscard]] std::vector<Kind> list_kinds() const {
    std::vector<Kind> kinds;
    for (const RowPolicy rows : wanted_.row_policies) {
      for (size_t i = 0; i < policies_.size(); ++i) {
        if (wanted_.depth_policies[i].max_drafts == 0 && rows != wanted_.row_policies.front()) continue;
        for (const double rate : wanted_.rates) kinds.push_back({.rows = rows, .policy_idx = i, .rate = rate});
      }
    }
    return kinds;
  }

  /// The same text for every request with that prompt.
  [[nodiscard]] GenerationOptions options_of(size_t prompt_idx, int64_t max_tokens) const {
    GenerationOptions options;
    options.max_tokens = max_tokens;
    options.num_speculative_tokens = 0;
    options.sampling = sampling_;
    options.sampling.seed += prompt_idx;
    return options;
  }

  /// The text of each prompt by itself, plainly decoded: as long as any request wants it, and with forced accept counts long
  /// enough for the drafts of the last round.
  void decode_alone() {
    engine_.generator().set_depth_policy(nullptr);
    std::vector<int64_t> lengths(load_.prompts.size());
    for (const auto& [prompt_idx, max_tokens] : load_.requests) lengths[prompt_idx] = std::max(lengths[prompt_idx], max_tokens);
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] == 0) {  // fewer requests than prompts
        texts_.emplace_back();
        continue;
      }
      const int64_t length = lengths[i] + (wanted_.forced_accepts.empty() ? 0 : kMaxDepth + 1);
      texts_.push_back(engine_.generator().generate(load_.prompts[i], options_of(i, length)).output_token_ids);
    }
  }

  void warm_up(Kind kind) {
    constexpr int64_t kTokens = 8;
    ServeLoad load = load_;
    load.requests.resize(std::min(load.requests.size(), static_cast<size_t>(engine_.options().max_sequences)));
    for (LoadRequest& request : load.requests) request.max_tokens = std::min(request.max_tokens, kTokens);
    kind.rate = std::numeric_limits<double>::infinity();
    static_cast<void>(serve_once(kind, load));
  }

  /// With nothing in the prefix cache.
  [[nodiscard]] ServeRun serve_once(const Kind& kind, const ServeLoad& load) {
    GenerationEngine& generator = engine_.generator();
    std::vector<ServedDrafts> noted;
    generator.clear_prefixes();
    generator.set_depth_policy(std::make_unique<NotedDepth>(*policies_[kind.policy_idx], noted));
    if (engine_.proposer() != nullptr) engine_.proposer()->set_row_policy(kind.rows);
    const int64_t max_drafts = spec_of(kind).max_drafts;
    const auto request_options = [&](size_t request_idx) {
      const auto& [prompt_idx, max_tokens] = load.requests[request_idx];
      GenerationOptions options = options_of(prompt_idx, max_tokens);
      options.num_speculative_tokens = max_drafts;
      if (max_drafts > 0 && !wanted_.forced_accepts.empty()) {
        options.forced = {.pattern = wanted_.forced_accepts, .continuation = texts_[prompt_idx]};
      }
      return options;
    };
    ServeRun run =
        serve(generator, load, arrival_schedule(load.requests.size(), kind.rate, wanted_.seed), request_options, noted);
    generator.set_depth_policy(nullptr);
    return run;
  }

  [[nodiscard]] int64_t num_different(const ServeRun& run) const {
    int64_t different = 0;
    for (size_t i = 0; i < run.requests.size(); ++i) {
      const auto& [prompt_idx, max_tokens] = load_.requests[i];
      std::vector<int32_t> alone = texts_[prompt_idx];
      alone.resize(std::min(alone.size(), static_cast<size_t>(max_tokens)));
      different += run.requests[i].result.output_token_ids == alone ? 0 : 1;
    }
    return different;
  }

  Engine& engine_;
  const ServeOptions& wanted_;
  const ServeLoad& load_;
  SamplingParams sampling_;
  std::vector<std::unique_ptr<DepthPolicy>> policies_;  // what they learn of the device serves all runs
  std::vector<std::vector<int32_t>> texts_;             // of each prompt by itself; none unless they are needed
};

/// One whose Programs serve all of them, and that learns nothing by itself.
DepthPolicySpec widest_policy(const std::vector<DepthPolicySpec>& policies) {
  if (policies.size() == 1 && policies.front().kind != DepthPolicySpec::Kind::kAuto) return policies.front();
  const DepthPolicySpec& deepest = *std::ranges::max_element(policies, {}, &DepthPolicySpec::max_drafts);
  return {.kind = DepthPolicySpec::Kind::kLadder,
          .max_drafts = deepest.max_drafts,
          .ladder = {{.max_sequences = kMaxBatch, .num_drafts = deepest.max_drafts}}};
}

void check_context(const ServeLoad& load, const Engine& engine) {
  const int64_t context = engine.config().max_position_embeddings;
  if (load.max_prompt_tokens() + load.max_tokens() + kMaxDepth + 1 <= context) return;
  throw Error(ErrorCode::kInvalidArgument,
              {.what = "prompts and texts do not fit into the model's context",
               .expected = fmt::format("at most {} tokens together, {} of them spare for drafts", context, kMaxDepth + 1),
               .got = fmt::format("{} and {}", load.max_prompt_tokens(), load.max_tokens())});
}

std::string time_of_day() {
  const auto now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

}  // namespace

int run_bench_serve(const Options& options) {
  ServeOptions wanted = serve_options(options);
  if (wanted.report_path) check_writable(*wanted.report_path);
  EngineOptions engine_options = decoding_options(options);
  set_memory(options, static_cast<size_t>(wanted.num_requests), engine_options);
  engine_options.max_speculative_tokens = wanted.max_depth();
  engine_options.require_speculation =
      wanted.max_depth() > 0 && (options.has("speculative-tokens") || options.has("force-accept"));
  engine_options.sampling = sampler_options(wanted.sampling);
  engine_options.depth_policy = widest_policy(wanted.depth_policies);  // what Programs are recorded for
  Engine engine(std::move(engine_options));
  if (!engine.can_speculate()) wanted.depth_policies = {parse_depth_policy("0", 0)};
  const ServeLoad load = read_load(options, wanted, engine);
  check_context(load, engine);
  load_engine(engine, load.max_prompt_tokens(), load.max_tokens() + kMaxDepth + 1, options.flag("quiet"));

  const ServeReport report{.engine = engine_report(engine),
                           .command = options.command_line(),
                           .num_requests = wanted.num_requests,
                           .max_sequences = engine.options().max_sequences,
                           .prompt_tokens = load.prompt_tokens(),
                           .max_tokens = wanted.max_tokens,
                           .seed = wanted.seed,
                           .forced_accepts = wanted.forced_accepts,
                           .checked = wanted.check,
                           .series = ServeBench(engine, wanted, load).measure()};
  if (wanted.report_path) write_file(*wanted.report_path, to_html(report, time_of_day()));
  fmt::print("{}", options.flag("json") ? to_json(report) : to_table(report));
  return report.identical() ? kExitOk : kExitDifferent;
}

}  // namespace foretoken::cli
