#include "speculative/c_api/engine.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "speculative/c_api/boundary.h"
#include "speculative/c_api/model_options.h"

namespace foretoken::c_api {
namespace {

constexpr int64_t kDefaultTokens = 2048;

int64_t drafts_of(int32_t asked) {
  if (asked == 0) return EngineOptions{}.max_speculative_tokens;
  return asked == -1 ? 0 : require_range("options.max_drafts", asked, 1, TargetRunner::kMaxVerifyRows - 1);
}

std::optional<SamplerOptions> sampler_of(const foretoken_engine_options& options, const EngineOptions& engine) {
  if (options.sampling == 0 && options.token_masks == 0) return std::nullopt;
  SamplerOptions sampler;
  if (options.token_masks != 0) sampler.max_mask_rows = engine.max_sequences * (1 + engine.max_speculative_tokens);
  return sampler;
}

std::optional<PrefixCacheOptions> prefix_cache_of(const foretoken_engine_options& options, int64_t prefill_chunk) {
  if (options.prefix_snapshots == 0) return std::nullopt;
  PrefixCacheOptions prefixes{.snapshot_bytes = std::numeric_limits<size_t>::max()};
  prefixes.max_snapshots = static_cast<int32_t>(
      require_range("options.prefix_snapshots", options.prefix_snapshots, 1, std::numeric_limits<int32_t>::max()));
  prefixes.snapshot_spacing = (prefixes.snapshot_spacing + prefill_chunk - 1) / prefill_chunk * prefill_chunk;
  return prefixes;
}

EngineOptions engine_options(const foretoken_engine_options& options) {
  EngineOptions engine;
  engine.model = text_or_empty(options.model);
  engine.kv_dtype = optional_dtype(options.kv_dtype, "options.kv_dtype");
  engine.draft_kv_dtype = optional_dtype(options.draft_kv_dtype, "options.draft_kv_dtype");
  engine.activation_dtype = optional_dtype(options.activation_dtype, "options.activation_dtype");
  engine.prefill_precision = prefill_precision_of(options.prefill_dtype);
  engine.max_speculative_tokens = drafts_of(options.max_drafts);
  engine.require_speculation = options.require_drafts != 0;
  if (options.depth != nullptr) engine.depth_policy = parse_depth_policy(options.depth, engine.max_speculative_tokens);
  engine.draft_precision = draft_precision_of(options.draft_precision, options.draft_fc, options.draft_experts,
                                              options.draft_lm_head == nullptr ? "auto" : options.draft_lm_head);
  engine.draft_vocab = text_or_empty(options.draft_vocab);
  engine.max_sequences = sequences_of(options.max_sequences);
  engine.kv_cache_tokens =
      require_range("options.kv_cache_tokens", options.kv_cache_tokens, 0, std::numeric_limits<int32_t>::max());
  engine.prefill_chunk = prefill_chunk_of(options.prefill_chunk);
  engine.prefix_cache = prefix_cache_of(options, engine.prefill_chunk);
  engine.sampling = sampler_of(options, engine);
  return engine;
}

/// Throws InvalidArgument for a null array that should have elements.
template <class T>
std::span<const T> array_of(const T* elements, size_t count, std::string_view name) {
  if (count == 0) return {};
  return {&require(elements, name), count};
}

DraftSampling draft_sampling_of(foretoken_draft_sampling sampling) {
  switch (sampling) {
    case FORETOKEN_DRAFTS_BLOCK: return DraftSampling::kBlock;
    case FORETOKEN_DRAFTS_SAMPLED: return DraftSampling::kRejection;
    case FORETOKEN_DRAFTS_GREEDY: return DraftSampling::kGreedy;
  }
  fail_argument("request.draft_sampling", "a foretoken_draft_sampling", std::to_string(static_cast<int>(sampling)));
}

SamplingParams sampling_of(const foretoken_request& request, std::span<const int32_t> stop_token_ids) {
  SamplingParams params;
  params.temperature = request.temperature;
  params.top_k = request.top_k;
  params.top_p = request.top_p == 0.0F ? 1.0F : request.top_p;
  params.min_p = request.min_p;
  params.repetition_penalty = request.repetition_penalty == 0.0F ? 1.0F : request.repetition_penalty;
  params.presence_penalty = request.presence_penalty;
  params.frequency_penalty = request.frequency_penalty;
  const auto ids = array_of(request.bias_token_ids, request.num_biases, "request.bias_token_ids");
  const auto biases = array_of(request.biases, request.num_biases, "request.biases");
  for (size_t i = 0; i < ids.size(); ++i) params.logit_bias[ids[i]] = biases[i];
  params.min_tokens = request.min_tokens;
  if (params.min_tokens > 0) params.stop_token_ids.assign(stop_token_ids.begin(), stop_token_ids.end());
  params.seed = request.seed;
  params.draft_sampling = request.temperature == 0.0F ? DraftSampling::kGreedy : draft_sampling_of(request.draft_sampling);
  if (request.mask != nullptr) {
    params.token_mask = [mask = request.mask, user = request.user](std::span<const int32_t> output, std::span<uint32_t> allowed) {
      return mask(user, output.data(), output.size(), allowed.data(), allowed.size()) != 0;
    };
  }
  return params;
}

}  // namespace

EngineObject::EngineObject(const std::shared_ptr<DeviceObject>& on_device, const foretoken_engine_options& options)
    : DeviceChild(on_device),
      engine_(std::make_unique<Engine>(engine_options(options), EngineDevice{.backend = {on_device, &on_device->backend()},
                                                                             .stream = {on_device, &on_device->stream()}})) {
  const auto tokens = [](std::string_view name, int64_t asked) {
    return asked == 0 ? kDefaultTokens : require_range(name, asked, 1, std::numeric_limits<int32_t>::max());
  };
  int64_t prompt_tokens = tokens("options.max_prompt_tokens", options.max_prompt_tokens);
  if (options.max_prompt_tokens == 0) prompt_tokens = std::min(prompt_tokens, engine_->config().max_position_embeddings - 1);
  Engine::ProgressFn progress;
  if (options.on_progress != nullptr) {
    progress = [&options](uint64_t done, uint64_t total) { options.on_progress(options.user, done, total); };
  }
  engine_->load(prompt_tokens, tokens("options.max_tokens", options.max_tokens), progress);
  for (const std::string& note : engine_->notes()) notes_ += (notes_.empty() ? "" : "\n") + note;
}

const Tokenizer& EngineObject::tokenizer() const {
  if (const Tokenizer* tokenizer = engine_->tokenizer()) return *tokenizer;
  throw Error(ErrorCode::kUnsupported, engine_->model_name() + " has no tokenizer: token ids only");
}

GenerationOptions EngineObject::generation_options(const foretoken_request& request, const std::shared_ptr<Ticket>& ticket) {
  GenerationOptions options;
  if (request.max_tokens != 0) options.max_tokens = require_range("request.max_tokens", request.max_tokens, 1, INT32_MAX);
  const int64_t most = engine_->can_speculate() ? engine_->options().max_speculative_tokens : 0;
  options.num_speculative_tokens = most;
  if (request.num_drafts != 0) {
    options.num_speculative_tokens =
        request.num_drafts == -1 ? 0 : require_range("request.num_drafts", request.num_drafts, 1, most);
  }
  options.stop_token_ids = engine_->config().eos_token_ids;
  if (request.stop_token_ids != nullptr) {
    options.stop_token_ids.assign(request.stop_token_ids, request.stop_token_ids + request.num_stop_token_ids);
  }
  for (const char* text : array_of(request.stop_strings, request.num_stop_strings, "request.stop_strings")) {
    options.stop_strings.emplace_back(&require(text, "request.stop_strings"));
  }
  options.sampling = sampling_of(request, options.stop_token_ids);
  const auto obey = [this, ticket](foretoken_verdict verdict) {
    if (verdict != FORETOKEN_CANCEL) return;
    ticket->is_cancelled = true;
    generator().cancel(ticket->id);
  };
  if (request.on_token != nullptr) {
    options.on_token = [obey, ticket, fn = request.on_token, user = request.user](int32_t token_id) {
      if (!ticket->is_cancelled) obey(fn(user, token_id));
    };
  }
  if (request.on_text != nullptr) {
    options.on_text = [obey, ticket, fn = request.on_text, user = request.user](std::string_view text) {
      const std::string copy(text);  // with a zero behind it
      if (!ticket->is_cancelled) obey(fn(user, copy.c_str(), copy.size()));
    };
  }
  return options;
}

RequestId EngineObject::submit(std::span<const int32_t> prompt, const foretoken_request* request) {
  const auto ticket = std::make_shared<Ticket>();
  GenerationOptions options = generation_options(read_struct(request, "request"), ticket);
  ticket->id = generator().submit({prompt.begin(), prompt.end()}, std::move(options));
  return ticket->id;
}

}  // namespace foretoken::c_api
