#include "speculative/engine.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "backends/registry.h"
#include "core/error.h"
#include "models/bundled.h"
#include "models/checkpoint.h"
#include "models/draft_vocab.h"
#include "models/memory_report.h"
#include "models/synth.h"
#include "models/weight_map.h"
#include "speculative/batch_bucket.h"
#include "speculative/cost_measurement.h"
#include "speculative/drafter_parts.h"

namespace foretoken {
namespace {

void check_options(const EngineOptions& options) {
  const auto check = [](const char* what, int64_t got, int64_t min, int64_t max) {
    if (got >= min && got <= max) return;
    throw Error(ErrorCode::kInvalidArgument, {.what = what,
                                              .where = "engine options",
                                              .expected = std::to_string(min) + " .. " + std::to_string(max),
                                              .got = std::to_string(got)});
  };
  check("speculative tokens", options.max_speculative_tokens, 0, TargetRunner::kMaxVerifyRows - 1);
  check("prefill chunk", options.prefill_chunk, 1, 8192);
  check("threads", options.num_threads, 0, 4096);
  check("sequences", options.max_sequences, 1, kMaxBatch);
  const auto check_kv_dtype = [](const char* what, DType dtype) {
    if (dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kE4M3) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        {.what = what, .where = "engine options", .expected = "F32, BF16 or F8_E4M3", .got = std::string(to_string(dtype))});
  };
  check_kv_dtype("KV cache dtype", options.kv_dtype.value_or(DType::kBF16));
  check_kv_dtype("KV cache dtype of the drafter", options.draft_kv_dtype.value_or(DType::kBF16));
}

}  // namespace

/// Everything that lives in device memory, in the order in which it depends on each other.
struct Engine::Loaded {
  Loaded(GpuBackend& backend, Stream& stream, LoadedModel loaded_model, const TargetRunnerOptions& options)
      : model(std::move(loaded_model)), runner(backend, stream, model.config, model.target, options, round) {}

  LoadedModel model;
  MetadataBuffer round;
  MetadataBuffer shadow_round;
  TargetRunner runner;
  DraftHead draft_head;
  std::unique_ptr<MtpProposer> proposer;
  std::unique_ptr<TargetRunner> shadow;
  std::unique_ptr<GenerationEngine> generator;
};

Engine::Engine(EngineOptions options, EngineDevice device) : options_(std::move(options)), device_(std::move(device)) {
  check_options(options_);
  open_model();
  if (!device_.backend) {
    device_.backend = BackendRegistry::instance().open(options_.backend, {.num_threads = options_.num_threads});
  }
  if (!device_.stream) device_.stream = device_.backend->create_stream();
  choose_activation_dtype();
  choose_prefill_precision();
  decide_speculation();
}

Engine::~Engine() = default;

void Engine::open_model() {
  ModelFiles files = open_model_files(options_.model);
  model_name_ = std::move(files.name);
  config_ = std::move(files.config);
  source_ = std::move(files.source);
  if (!files.directory.empty() && std::filesystem::exists(files.directory / "tokenizer.json")) {
    tokenizer_.emplace(Tokenizer::load(files.directory));
  } else {
    notes_.emplace_back("this model has no tokenizer: token ids only");
  }
  if (!options_.draft_vocab.empty()) draft_vocab_ = read_draft_vocab(options_.draft_vocab, config_.vocab_size, files.directory);
}

void Engine::choose_activation_dtype() {
  const Capabilities& device = device_.backend->capabilities();
  activation_dtype_ = device.activation_dtype(options_.activation_dtype);
  if (options_.activation_dtype || device.activation_dtypes.size() == 1) return;
  notes_.push_back("linear layers read " + std::string(to_string(activation_dtype_)) +
                   " activations, which this device is fastest with");
}

void Engine::choose_prefill_precision() {
  const Availability& bf16 = device_.backend->capabilities().bf16_prefill;
  prefill_precision_ = options_.prefill_precision.value_or(bf16 ? LinearPrecision::kBF16 : LinearPrecision::kExact);
  if (options_.prefill_precision == LinearPrecision::kBF16 && !bf16) {
    notes_.push_back("prefill with BF16 activations gains nothing on this device: " + bf16.reason());
  }
  if (options_.prefill_precision) return;
  notes_.push_back(bf16 ? "prefill with BF16 activations, which this device is faster with"
                        : "prefill with float32 activations (BF16: " + bf16.reason() + ")");
}

void Engine::decide_speculation() {
  const auto plan = plan_weights(*source_, config_);
  mtp_absent_reason_ = plan->mtp_absent_reason;
  speculates_ = options_.max_speculative_tokens > 0 && mtp_absent_reason_.empty();
  if (speculates_) choose_draft_formats(*plan);
  if (speculates_ || options_.max_speculative_tokens == 0) return;
  if (options_.require_speculation) {
    throw Error(ErrorCode::kUnsupported, model_name_ + ": speculation is not available: " + mtp_absent_reason_);
  }
  notes_.push_back("plain decoding, speculation is not available: " + mtp_absent_reason_);
}

void Engine::choose_draft_formats(const WeightPlan& plan) {
  draft_formats_ = foretoken::choose_draft_formats(*device_.backend, plan, options_.draft_precision);
  if (!draft_formats_.lm_head_reason.empty()) notes_.push_back(draft_formats_.lm_head_reason);
  if (draft_vocab_.empty()) return;
  notes_.push_back("drafts are picked from " + std::to_string(draft_vocab_.size()) + " of " + std::to_string(config_.vocab_size) +
                   " tokens");
}

TargetRunnerOptions Engine::runner_options(int64_t prompt_tokens, int64_t max_tokens) const {
  const int64_t context = config_.max_position_embeddings;
  if (prompt_tokens < 1) throw Error(ErrorCode::kInvalidArgument, "the prompt is empty, expected at least one token");
  if (prompt_tokens >= context) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "the prompt does not fit into the model's context",
                                              .expected = "fewer than " + std::to_string(context) + " tokens",
                                              .got = std::to_string(prompt_tokens)});
  }
  if (max_tokens < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "tokens to generate", .expected = "at least 1", .got = std::to_string(max_tokens)});
  }
  // Beyond the text: the rows of a verify step that stick out of it, and the pair key one ahead.
  const int64_t room = std::min(max_tokens, context) + TargetRunner::kMaxVerifyRows + 1;
  const int64_t max_seq_len = std::min(prompt_tokens + room, context);
  TargetRunnerOptions options{.max_seq_len = max_seq_len,
                              .max_sequences = options_.max_sequences,
                              .prefill_chunk = options_.prefill_chunk,
                              .max_verify_rows = 1 + options_.max_speculative_tokens,
                              .num_parked_rows = speculates_ ? DrafterRows::kParkedRows * options_.max_sequences : 0,
                              .prefill_precision = prefill_precision_,
                              .cache_dtype = kv_dtype(),
                              .activation_dtype = activation_dtype_,
                              .sampling = options_.sampling,
                              .keep_logits = options_.keep_logits || options_.self_check};
  if (options_.kv_cache_tokens > 0) {
    options.num_kv_blocks = (options_.kv_cache_tokens + options.block_size - 1) / options.block_size;
  }
  return options;
}

void Engine::load(int64_t prompt_tokens, int64_t max_tokens, const ProgressFn& progress) {
  if (loaded_) throw Error(ErrorCode::kInvalidState, "this engine has loaded its model already");
  const TargetRunnerOptions target_options = runner_options(prompt_tokens, max_tokens);
  try {
    load_parts(target_options, progress);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    throw error.with_context(memory_needed(target_options.max_seq_len));
  }
}

/// What does not fit, in bytes: the large parts.
std::string Engine::memory_needed(int64_t max_seq_len) const {
  const MemoryReport report = memory_report(*source_, config_);
  const auto tokens = static_cast<uint64_t>(max_seq_len);
  uint64_t weights = report.target_bytes;
  uint64_t caches = tokens * target_kv_bytes_per_token(config_, kv_dtype()) + recurrent_state_bytes(config_);
  if (speculates_) {
    weights += report.draft_bytes;
    caches += tokens * draft_kv_bytes_per_token(config_, draft_kv_dtype());
  }
  return model_name_ + " needs weights of " + std::to_string(weights) + " bytes and, for " + std::to_string(max_seq_len) +
         " tokens, caches of " + std::to_string(caches) + " bytes";
}

void Engine::load_parts(const TargetRunnerOptions& target_options, const ProgressFn& progress) {
  LoadedModel model = load_model(*device_.backend, *source_, config_,
                                 {.load_mtp = speculates_, .draft_tensors_apart = true, .progress = progress});
  DraftHead head;
  if (model.mtp) head = replace_draft_head(*device_.backend, *device_.stream, model, draft_formats_, draft_vocab_);
  auto loaded = std::make_unique<Loaded>(*device_.backend, *device_.stream, std::move(model), target_options);
  loaded->draft_head = std::move(head);
  add_drafter(*loaded);
  note_fallbacks(*loaded);
  loaded->round.allocate(*device_.backend);
  prepare(*loaded);
  if (options_.self_check) {
    loaded->shadow = std::make_unique<TargetRunner>(*device_.backend, *device_.stream, loaded->model.config, loaded->model.target,
                                                    target_options, loaded->shadow_round);
    loaded->shadow_round.allocate(*device_.backend);
    loaded->shadow->prepare({}, 1, 0);
  }
  add_generator(*loaded);
  device_.stream->synchronize();
  loaded_ = std::move(loaded);
}

void Engine::add_drafter(Loaded& loaded) const {
  if (!loaded.model.mtp) return;
  const MtpProposerOptions options{.max_seq_len = loaded.runner.options().max_seq_len,
                                   .max_sequences = options_.max_sequences,
                                   .max_drafts = options_.max_speculative_tokens,
                                   .max_append_rows = options_.prefill_chunk,
                                   .cache_dtype = draft_kv_dtype(),
                                   .activation_dtype = activation_dtype_,
                                   .rows = options_.draft_rows,
                                   .hidden = options_.draft_hidden,
                                   .chain = options_.draft_chain,
                                   .confidence_stop = options_.draft_confidence_stop,
                                   .sampler = loaded.runner.sampler()};
  loaded.proposer = make_proposer(*device_.backend, config_, loaded.draft_head, options, loaded.round);
}

GenerationParts Engine::parts_of(Loaded& loaded) const {
  return {.backend = device_.backend.get(),
          .stream = device_.stream.get(),
          .runner = &loaded.runner,
          .proposer = loaded.proposer.get(),
          .tokenizer = tokenizer(),
          .shadow = loaded.shadow.get()};
}

std::unique_ptr<DepthPolicy> Engine::make_policy(Loaded& loaded, const DepthPolicySpec& spec) const {
  std::unique_ptr<DepthPolicy> policy = make_depth_policy(spec);
  if (spec.kind != DepthPolicySpec::Kind::kAuto || !loaded.proposer) return policy;
  measure_round_costs(parts_of(loaded), 1, *policy);
  if (options_.max_sequences > 1) measure_round_costs(parts_of(loaded), options_.max_sequences, *policy);
  return policy;
}

void Engine::add_generator(Loaded& loaded) const {
  GenerationEngineOptions options{.depth_policy = nullptr,
                                  .prefix_cache = options_.prefix_cache,
                                  .draft_prompt_rows = options_.draft_prompt_rows,
                                  .overcommit = options_.overcommit};
  if (options_.depth_policy && loaded.proposer) options.depth_policy = make_policy(loaded, *options_.depth_policy);
  if (options.prefix_cache) {
    options.prefix_cache->prefill_chunk = options_.prefill_chunk;
    options.prefix_cache->row_invariant_prefill = prefill_precision_ == LinearPrecision::kExact;
  }
  loaded.generator = std::make_unique<GenerationEngine>(parts_of(loaded), std::move(options));
}

/// The Programs of every bucket, so the first round is as fast as the tenth.
void Engine::prepare(Loaded& loaded) const {
  for (int64_t sequences = 1; sequences <= batch_bucket(options_.max_sequences); sequences *= 2) {
    prepare(loaded, std::min<int64_t>(sequences, options_.max_sequences), false);
    if (options_.sampling) prepare(loaded, std::min<int64_t>(sequences, options_.max_sequences), true);
  }
}

/// With a fixed depth a round takes in what the one before left; otherwise that one may have been the deepest.
void Engine::prepare(Loaded& loaded, int64_t num_sequences, bool is_sampled) const {
  loaded.runner.prepare({}, num_sequences, 0, is_sampled);
  if (!loaded.proposer) return;
  const bool is_fixed = options_.depth_policy && options_.depth_policy->kind == DepthPolicySpec::Kind::kFixed;
  const bool is_drawn = is_sampled && loaded.proposer->options().sampler != nullptr;
  const TargetModel& target = loaded.runner.model();
  const Tensor& hidden = options_.draft_hidden == HiddenKind::kPostNorm ? target.hidden() : target.residual();
  const int64_t wanted = options_.depth_policy ? options_.depth_policy->max_drafts : options_.max_speculative_tokens;
  const int64_t max_drafts = std::min(wanted, options_.max_speculative_tokens);
  for (int64_t drafts = is_fixed ? max_drafts : 1; drafts > 0 && drafts <= max_drafts; ++drafts) {
    loaded.runner.prepare(loaded.proposer->block_token_ids(), num_sequences, drafts, is_sampled);
    loaded.proposer->prepare(hidden, num_sequences, 1 + (options_.depth_policy ? max_drafts : drafts), drafts, is_drawn);
  }
}

void Engine::note_fallbacks(const Loaded& loaded) {
  if (const Availability& fused = loaded.runner.model().fused_pick(); !fused) {
    notes_.push_back("the target picks tokens from logits that it writes: " + fused.reason());
  }
  if (!loaded.proposer) return;
  if (std::string note = fallback_note(*loaded.proposer); !note.empty()) notes_.push_back(std::move(note));
}

Engine::Loaded& Engine::loaded() const {
  if (!loaded_) throw Error(ErrorCode::kInvalidState, "the engine's model is not loaded yet");
  return *loaded_;
}

const LoadedModel& Engine::model() const { return loaded().model; }
TargetRunner& Engine::runner() { return loaded().runner; }
MtpProposer* Engine::proposer() { return loaded().proposer.get(); }
const DraftHead* Engine::draft_head() const { return can_speculate() ? &loaded().draft_head : nullptr; }
GenerationEngine& Engine::generator() { return *loaded().generator; }

ModelFiles open_model_files(const std::string& name) {
  if (is_synth_spec(name)) {
    auto source = std::make_unique<SynthSource>(parse_synth_spec(name));
    ModelConfig config = source->config();
    return {.name = name, .directory = {}, .config = std::move(config), .source = std::move(source)};
  }
  const std::filesystem::path directory = name.empty() ? bundled_model() : std::filesystem::path(name);
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "no such model",
                                              .expected = "the folder of a checkpoint, or synth:NAME",
                                              .got = "'" + directory.string() + "'"});
  }
  ModelConfig config = load_model_config(directory);
  return {.name = directory.string(),
          .directory = directory,
          .config = std::move(config),
          .source = std::make_unique<Checkpoint>(directory)};
}

}  // namespace foretoken
