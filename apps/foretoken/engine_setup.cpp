#include "apps/foretoken/engine_setup.h"

#include <algorithm>
#include <limits>

#include "apps/foretoken/console.h"
#include "speculative/batch_bucket.h"

namespace foretoken::cli {

std::optional<DType> kv_dtype_option(const Options& options, std::string_view name) {
  switch (options.choice(name, {"auto", "f32", "bf16", "fp8"})) {
    case 1: return DType::kF32;
    case 2: return DType::kBF16;
    case 3: return DType::kE4M3;
    default: return std::nullopt;
  }
}

std::optional<DType> activations_option(const Options& options) {
  switch (options.choice("activations", {"auto", "f32", "bf16"})) {
    case 1: return DType::kF32;
    case 2: return DType::kBF16;
    default: return std::nullopt;
  }
}

std::string_view dtype_name(DType dtype) {
  if (dtype == DType::kE4M3) return "fp8";
  return dtype == DType::kF32 ? "f32" : "bf16";
}

namespace {

/// What every command with an engine takes.
EngineOptions common_options(const Options& options) {
  EngineOptions engine;
  engine.model = options.text("model").value_or("");
  if (options.has("model") && engine.model.empty()) options.fail("option --model: expected a folder or synth:NAME, got nothing");
  engine.backend = options.text("backend").value_or("");
  engine.num_threads = static_cast<int>(options.integer("threads", 0, 1024));
  engine.activation_dtype = activations_option(options);
  engine.draft_kv_dtype = kv_dtype_option(options, "draft-kv-dtype");
  engine.draft_vocab = options.text("draft-vocab").value_or("");
  if (options.has("draft-vocab") && engine.draft_vocab.empty()) {
    options.fail("option --draft-vocab: expected a number or a file, got nothing");
  }
  const bool pre_chain = options.choice("draft-chain", {"post", "pre"}) == 1;
  engine.draft_chain = pre_chain ? ChainKind::kPreNorm : ChainKind::kPostNorm;
  return engine;
}

}  // namespace

EngineOptions drafter_options(const Options& options) {
  EngineOptions engine = common_options(options);
  engine.draft_precision = draft_precision_options(options);
  return engine;
}

EngineOptions engine_options(const Options& options) {
  EngineOptions engine = common_options(options);
  engine.kv_dtype = kv_dtype_option(options, "kv-dtype");
  switch (options.choice("prefill-precision", {"auto", "f32", "bf16"})) {
    case 1: engine.prefill_precision = LinearPrecision::kExact; break;
    case 2: engine.prefill_precision = LinearPrecision::kBF16; break;
    default: break;
  }
  engine.prefill_chunk = options.integer("prefill-chunk", 1, 8192);
  const bool pre_hidden = options.choice("draft-hidden", {"post", "pre"}) == 1;
  engine.draft_hidden = pre_hidden ? HiddenKind::kPreNorm : HiddenKind::kPostNorm;
  engine.draft_prompt_rows = options.is_on("draft-prompt-rows");
  return engine;
}

EngineOptions decoding_options(const Options& options) {
  EngineOptions engine = engine_options(options);
  engine.draft_precision = draft_precision_options(options);
  engine.draft_confidence_stop = confidence_stop_option(options);
  return engine;
}

namespace {

PrefixCacheOptions prefix_cache_options(const Options& options, int64_t prefill_chunk) {
  const int64_t spacing = options.integer("prefix-spacing", 1, INT32_MAX);
  return {.snapshot_bytes = std::numeric_limits<size_t>::max(),
          .prefill_chunk = prefill_chunk,
          .snapshot_spacing = (spacing + prefill_chunk - 1) / prefill_chunk * prefill_chunk,
          .reuse_generated = options.is_on("prefix-turns"),
          .max_snapshots = static_cast<int32_t>(options.integer("prefix-snapshots", 0, 1'000'000)),
          .draft_rows = options.is_on("prefix-draft-rows")};
}

}  // namespace

void set_memory(const Options& options, size_t num_prompts, EngineOptions& engine) {
  const int64_t max_sequences = options.integer("max-sequences", 1, kMaxBatch);
  engine.max_sequences = static_cast<int32_t>(std::min(max_sequences, static_cast<int64_t>(num_prompts)));
  engine.kv_cache_tokens = options.integer("kv-cache-tokens", 0, INT32_MAX);
  engine.overcommit = options.flag("overcommit");
  const size_t wanted = options.choice("prefix-cache", {"auto", "on", "off"});
  const PrefixCacheOptions prefix_cache = prefix_cache_options(options, engine.prefill_chunk);
  if (wanted == 1 || (wanted == 0 && num_prompts > 1)) engine.prefix_cache = prefix_cache;
}

DraftPrecision draft_precision_options(const Options& options) {
  return {.linears = parse_option(options, "draft-precision", parse_draft_precision),
          .fc = parse_option(options, "draft-fc", parse_draft_precision),
          .experts = parse_option(options, "draft-experts", parse_draft_precision),
          .lm_head = parse_option(options, "draft-lm-head", parse_draft_lm_head)};
}

DepthPolicySpec depth_option(const Options& options) {
  constexpr std::string_view kName = "speculative-tokens";
  const std::string text = options.required_text(kName);
  if (text.find_first_not_of("-0123456789") == std::string::npos) {
    return {.kind = DepthPolicySpec::Kind::kFixed, .max_drafts = options.integer(kName, 0, TargetRunner::kMaxVerifyRows - 1)};
  }
  const bool is_auto = text == "auto";
  try {
    DepthPolicySpec spec = parse_depth_policy(text, is_auto ? kMostAutoDrafts : TargetRunner::kMaxVerifyRows - 1);
    if (!spec.ladder.empty()) spec.max_drafts = std::ranges::max(spec.ladder, {}, &LadderStep::num_drafts).num_drafts;
    return spec;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    options.fail("option --" + std::string(kName) + ": " + error.what());
  }
}

std::optional<double> confidence_stop_option(const Options& options) {
  if (!options.has("draft-confidence-stop")) return std::nullopt;
  const double stop = options.real("draft-confidence-stop", 0.0, 1.0);
  if (stop == 0.0 || stop == 1.0) options.fail("option --draft-confidence-stop: expected more than 0 and less than 1");
  return stop;
}

void load_engine(Engine& engine, int64_t prompt_tokens, int64_t max_tokens, bool quiet) {
  size_t num_printed = 0;
  const auto print_notes = [&] {
    for (; !quiet && num_printed < engine.notes().size(); ++num_printed) print_message("note", engine.notes()[num_printed]);
  };
  print_notes();
  {
    Progress progress("loading " + engine.model_name());
    engine.load(prompt_tokens, max_tokens, [&progress](uint64_t done, uint64_t total) { progress.update(done, total); });
  }
  print_notes();
}

std::string_view precision_name(LinearPrecision precision) { return precision == LinearPrecision::kExact ? "f32" : "bf16"; }

}  // namespace foretoken::cli
