// What sampling is made of, shared by all implementations so that the same logits give the same token on every device: weights of
// tokens and their sums are integers (sums in any order are equal), and random numbers are a hash of what they are for.
#pragma once

#include <cstdint>

namespace foretoken {

/// Columns of the parameters of a sequence slot that are floats, `reals` [S, kNumSamplingReals].
enum SamplingReal : uint32_t {
  kTemperature,        // 0: greedy
  kTopP,               // 1: off
  kMinP,               // 0: off
  kRepetitionPenalty,  // 1: off
  kPresencePenalty,    // 0: off
  kFrequencyPenalty,   // 0: off
  kNumSamplingReals
};

/// Columns of those that are integers, `integers` [S, kNumSamplingIntegers].
enum SamplingInteger : uint32_t {
  kTopK,           // 0: off
  kFirstStopRow,   // rows at positions below it may not pick a stop id
  kDraftSampling,  // a DraftSampling
  kNumSamplingIntegers
};

/// How drafts of a slot come about and are verified. A slot at temperature 0 is always kGreedy.
enum class DraftSampling : int32_t {
  kGreedy,     // the drafter's best token; accepted where the target's sample equals it
  kRejection,  // drawn from the drafter's distribution; rejection sampling, draft by draft
  kBlock       // likewise; block verification
};

/// In the counts of a slot: bit of the tokens that the prompt has. The bits below count how often the output has the token.
inline constexpr int32_t kInPrompt = 1 << 30;

/// Most tokens of a vocabulary: sums of weights stay below 2^63.
inline constexpr int64_t kMaxSampledVocab = int64_t{1} << 22;
/// Most tokens of a draft distribution that is kept for the verify step.
inline constexpr uint32_t kMaxDraftCandidates = 256;
/// Most drafts that one verify step checks of a sequence.
inline constexpr uint32_t kMaxVerifiedDrafts = 31;

/// What a random number is for. Two numbers of a sequence never have both the same position and the same purpose and index.
enum class RandomPurpose : uint32_t {
  kToken,   // the token after the row at `position`
  kDraft,   // draft `index` of the block whose newest token is at `position`
  kAccept,  // whether that draft holds
};

// Always inlined: the CPU's kernels are compiled once per instruction set, and the linker must not mix those up.

/// Mixes all bits (the finaliser of splitmix64).
[[nodiscard, gnu::always_inline]] constexpr uint64_t mix_bits(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// 64 random bits.
[[nodiscard, gnu::always_inline]] constexpr uint64_t random_bits(uint64_t seed, int64_t position, RandomPurpose purpose,
                                                                 uint32_t index) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  uint64_t z = mix_bits(seed + kStep);
  z = mix_bits((z ^ static_cast<uint64_t>(position)) + kStep);
  return mix_bits((z ^ (static_cast<uint64_t>(purpose) << 32 | index)) + kStep);
}

/// The upper 64 bits of a * b.
[[nodiscard, gnu::always_inline]] constexpr uint64_t multiply_high(uint64_t a, uint64_t b) {
  constexpr uint64_t kLow = 0xffffffffULL;
  const uint64_t low = (a & kLow) * (b & kLow);
  const uint64_t first = (a >> 32) * (b & kLow) + (low >> 32);
  const uint64_t second = (a & kLow) * (b >> 32) + (first & kLow);
  return (a >> 32) * (b >> 32) + (first >> 32) + (second >> 32);
}

/// A number of [0, 1) from random bits, exactly.
[[nodiscard, gnu::always_inline]] constexpr double unit_interval(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// The weight of the most likely token of a row.
inline constexpr uint64_t kLargestWeight = uint64_t{1} << 40;

/// Logits that far below the best have no weight.
inline constexpr float kLowestWeighted = -28.0F;

/// 2^40 e^x for x in [kLowestWeighted, 0], within 1.5e-7 of it and 1, rounded down: kLargestWeight at 0, 0 at kLowestWeighted.
/// IEEE operations in this order, without fused ones, give the same integer everywhere.
[[nodiscard, gnu::always_inline]] constexpr uint64_t clamped_weight(float x) {
  const float n = (x * 1.44269504088896341F + 12582912.0F) - 12582912.0F;  // 1.5 * 2^23: rounds to an integer
  // ln 2 in two parts (Cody and Waite): n times the first is exact.
  float r = x - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto mantissa = static_cast<int32_t>(p * 16777216.0F);  // 2^24 p, exactly
  return (static_cast<uint64_t>(mantissa) << 16) >> static_cast<int32_t>(-n);
}

/// Weight of a token whose logit, over the temperature, is `x` more than that of the best: that of 0 above 0, and 0 of NaN.
[[nodiscard, gnu::always_inline]] constexpr uint64_t sampling_weight(float x) {
  const float low = x > kLowestWeighted ? x : kLowestWeighted;
  return clamped_weight(low < 0.0F ? low : 0.0F);
}

/// total * share, rounded down, for a share of [0, 1] and a total below 2^63; the share counts to 2^-32.
[[nodiscard, gnu::always_inline]] constexpr uint64_t share_of(uint64_t total, float share) {
  const auto fixed = static_cast<uint64_t>(share * 4294967296.0F);
  return (total >> 32) * fixed + ((total & 0xffffffffULL) * fixed >> 32);
}

/// The weight of a drafted token on the target's scale is draft_weight * scale, with scale = (sum of the target's weights) / (sum
/// of the draft's). What is left of the target's weight when `share` of it must cover that: max(weight - draft_weight * scale /
/// share, 0), rounded down.
[[nodiscard, gnu::always_inline]] constexpr uint64_t residual_weight(uint64_t weight, uint64_t draft_weight, double scale,
                                                                     double share) {
  const double left = static_cast<double>(weight) - static_cast<double>(draft_weight) * scale / share;
  return left > 0.0 ? static_cast<uint64_t>(left) : 0;
}

}  // namespace foretoken
