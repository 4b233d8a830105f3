// What a request may ask of sampling.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "core/ops/sampling_rules.h"

namespace foretoken {

/// Which tokens may follow `output`, the emitted ids of the sequence and, inside a block, the drafts before the row. `allowed`
/// has a bit per token, bit id % 32 of word id / 32, all 0 at the call. False: any may follow, whatever was written. The calls of
/// a block go row by row and stop where a draft is not allowed, or is a stop id: `output` never has a token that was not allowed
/// before, so a grammar can follow it; what was said after drafts that are then rejected counts for nothing. Where nothing may
/// follow, the stop ids may.
using TokenMaskFn = std::function<bool(std::span<const int32_t> output, std::span<uint32_t> allowed)>;

/// Applied in this order: bias and masks, penalties, temperature, top-k, top-p, min-p (core/ops/process_logits.h).
struct SamplingParams {
  static constexpr float kMinTemperature = 1e-3F;
  static constexpr float kMaxTemperature = 100.0F;

  float temperature = 0.0F;  // 0: greedy over the processed logits; else kMinTemperature .. kMaxTemperature
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0F;        // (0, 1]
  float min_p = 0.0F;        // [0, 1]: least probability, as a share of the most likely token's

  float repetition_penalty = 1.0F;  // (0, 100]: of the tokens of prompt and output
  float presence_penalty = 0.0F;    // [-100, 100]: of the tokens of the output
  float frequency_penalty = 0.0F;   // [-100, 100]: of the tokens of the output, as often as they are there

  std::map<int32_t, float> logit_bias{};  // id to what is added to its logit; -infinity forbids it
  int64_t min_tokens = 0;                 // stop_token_ids are forbidden before the output has that many
  std::vector<int32_t> stop_token_ids{};
  uint64_t seed = 0;

  DraftSampling draft_sampling = DraftSampling::kBlock;  // at temperature 0: kGreedy
  TokenMaskFn token_mask{};
};

/// Throws InvalidArgument that names the parameter, the range and the value.
void validate(const SamplingParams& params, int64_t vocab_size);

/// Whether the picks are the argmax of the model's own logits: no sampler is needed.
[[nodiscard]] bool is_plain_greedy(const SamplingParams& params);
/// Whether the counts of tokens matter.
[[nodiscard]] bool has_penalties(const SamplingParams& params);

}  // namespace foretoken
