// `foretoken bench decode`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>

#include "apps/foretoken/bench_report.h"
#include "apps/foretoken/engine_setup.h"
#include "apps/foretoken/exit_status.h"
#include "core/error.h"
#include "models/memory_report.h"

namespace foretoken::cli {
namespace {

constexpr int64_t kMaxDepth = TargetRunner::kMaxVerifyRows - 1;

struct BenchOptions {
  std::vector<int64_t> depths;  // without 0, in the order given
  int64_t prompt_tokens = 0;
  int64_t max_tokens = 0;
  int64_t repeat = 0;
  std::vector<int64_t> forced_accepts;

  [[nodiscard]] int64_t max_depth() const { return depths.empty() ? 0 : *std::ranges::max_element(depths); }
};

BenchOptions bench_options(const Options& options) {
  BenchOptions wanted{.depths = {},
                      .prompt_tokens = options.integer("prompt-tokens", 1, INT32_MAX),
                      .max_tokens = options.integer("max-tokens", 2, INT32_MAX),
                      .repeat = options.integer("repeat", 1, 1000),
                      .forced_accepts = {}};
  for (const int64_t depth : options.integers("speculative-tokens", 0, kMaxDepth)) {
    if (depth > 0 && std::ranges::find(wanted.depths, depth) == wanted.depths.end()) wanted.depths.push_back(depth);
  }
  if (!options.has("force-accept")) return wanted;
  wanted.forced_accepts = options.integers("force-accept", 0, kMaxDepth);
  if (wanted.depths.empty()) options.fail("--force-accept needs at least one number of speculative tokens above 0");
  return wanted;
}

std::vector<int32_t> random_prompt(int64_t count, int64_t vocab_size) {
  std::mt19937_64 generator(20260117);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(generator() % static_cast<uint64_t>(vocab_size));
  return ids;
}

/// Bytes that steps move: weights, the KV cache at the middle of the text, recurrent states read and written.
class StepBytes {
 public:
  StepBytes(const Engine& engine, int64_t mean_context)
      : config_(engine.config()), report_(memory_report(engine.source(), config_)) {
    const auto tokens = static_cast<uint64_t>(mean_context);
    target_ = tokens * target_kv_bytes_per_token(config_, engine.kv_dtype()) + 2 * recurrent_state_bytes(config_);
    draft_ = engine.can_speculate() ? draft_step_bytes(*engine.draft_head(), engine.config()) : 0;
    draft_ += tokens * draft_kv_bytes_per_token(config_, engine.draft_kv_dtype());
  }

  /// A plain step (depth 0), or a round of `depth` draft passes and one verify step.
  [[nodiscard]] uint64_t of(int64_t depth) const {
    const uint64_t drafts = static_cast<uint64_t>(depth) * draft_;
    return drafts + report_.target_step_bytes + more_experts(depth + 1) + target_;
  }

 private:
  /// What `rows` rows read of the experts beyond one row: as many as are hit when each row picks its own at random.
  [[nodiscard]] uint64_t more_experts(int64_t rows) const {
    if (!config_.is_moe()) return 0;
    const auto experts = static_cast<double>(config_.num_experts);
    const auto active = static_cast<double>(config_.num_experts_per_tok);
    const double hit = experts * (1.0 - std::pow(1.0 - active / experts, static_cast<double>(rows)));
    double bytes = 0.0;
    for (const PartReport& part : report_.parts) {
      if (!part.draft && part.part == WeightPart::kExperts) bytes += static_cast<double>(part.step_bytes) * (hit / active - 1.0);
    }
    return static_cast<uint64_t>(bytes);
  }

  const ModelConfig& config_;
  MemoryReport report_;
  uint64_t target_ = 0;
  uint64_t draft_ = 0;
};

/// Runs all kinds in turn, so that a machine that slows down or speeds up does so for all of them. `before_each` is called before
/// each turn.
std::vector<BenchSeries> measure(Engine& engine, const BenchOptions& wanted, const std::function<void()>& before_each) {
  const std::vector<int32_t> prompt = random_prompt(wanted.prompt_tokens, engine.config().vocab_size);
  GenerationOptions warm_up;
  warm_up.max_tokens =
      wanted.forced_accepts.empty() ? std::min<int64_t>(wanted.max_tokens, 16) : wanted.max_tokens + kMaxDepth + 1;
  warm_up.num_speculative_tokens = 0;
  // With forced accept counts this is also the text that drafts are taken from, long enough for the last round.
  const std::vector<int32_t> continuation = engine.generator().generate(prompt, warm_up).output_token_ids;

  std::vector<BenchSeries> series{{.speculative_tokens = 0, .runs = {}}};
  const StepBytes bytes(engine, wanted.prompt_tokens + wanted.max_tokens / 2);
  for (const int64_t depth : wanted.depths) {
    series.push_back({.speculative_tokens = depth, .runs = {}});
    warm_up.num_speculative_tokens = depth;
    warm_up.max_tokens = std::min<int64_t>(wanted.max_tokens, 16);
    static_cast<void>(engine.generator().generate(prompt, warm_up));
  }
  for (int64_t run = 0; run < wanted.repeat; ++run) {
    before_each();
    for (BenchSeries& one : series) {
      GenerationOptions options;
      options.max_tokens = wanted.max_tokens;
      options.num_speculative_tokens = one.speculative_tokens;
      if (one.speculative_tokens > 0 && !wanted.forced_accepts.empty()) {
        options.forced = {.pattern = wanted.forced_accepts, .continuation = continuation};
      }
      one.bytes_per_step = bytes.of(one.speculative_tokens);
      one.runs.push_back(engine.generator().generate(prompt, options));
      one.identical = one.identical && one.runs.back().output_token_ids == series.front().runs.front().output_token_ids;
    }
  }
  return series;
}

}  // namespace

int run_bench_decode(const Options& options) {
  BenchOptions wanted = bench_options(options);
  EngineOptions engine_options = decoding_options(options);
  engine_options.max_speculative_tokens = wanted.max_depth();
  engine_options.require_speculation =
      wanted.max_depth() > 0 && (options.has("speculative-tokens") || options.has("force-accept"));
  engine_options.draft_rows = parse_option(options, "draft-rows", parse_row_policy);
  Engine engine(std::move(engine_options));
  if (!engine.can_speculate()) wanted.depths.clear();
  const int64_t context = engine.config().max_position_embeddings;
  if (wanted.prompt_tokens + wanted.max_tokens + kMaxDepth + 1 > context) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "prompt and text do not fit into the model's context",
                 .expected = fmt::format("at most {} tokens together, {} of them spare for drafts", context, kMaxDepth + 1),
                 .got = fmt::format("{} and {}", wanted.prompt_tokens, wanted.max_tokens)});
  }
  const Capabilities& device = engine.backend().capabilities();
  BenchReport report{.model = engine.model_name(),
                     .backend = device.backend,
                     .device = device.device_name,
                     .num_threads = device.num_compute_units,
                     .prefill_precision = std::string(precision_name(engine.prefill_precision())),
                     .activations = std::string(dtype_name(engine.activation_dtype())),
                     .kv_dtype = std::string(dtype_name(engine.kv_dtype())),
                     .draft_kv_dtype = std::string(dtype_name(engine.draft_kv_dtype())),
                     .prompt_tokens = wanted.prompt_tokens,
                     .max_tokens = wanted.max_tokens,
                     .forced_accepts = wanted.forced_accepts,
                     .draft = std::nullopt,
                     .read_bandwidth = {},
                     .series = {}};
  BandwidthMeter meter(engine.backend());
  std::vector<ReadBandwidth> bandwidths;
  if (meter.takes_device_memory()) bandwidths.push_back(meter.measure());  // while it is free
  load_engine(engine, wanted.prompt_tokens, wanted.max_tokens + kMaxDepth + 1, options.flag("quiet"));
  if (engine.can_speculate()) report.draft = draft_report(engine.options().draft_precision, *engine.draft_head());
  report.series = measure(engine, wanted, [&] {
    if (!meter.takes_device_memory()) bandwidths.push_back(meter.measure());  // it changes with what else runs on the machine
  });
  report.read_bandwidth = median_bandwidth(bandwidths);
  fmt::print("{}", options.flag("json") ? to_json(report) : to_table(report));
  return report.identical() ? kExitOk : kExitDifferent;
}

}  // namespace foretoken::cli
