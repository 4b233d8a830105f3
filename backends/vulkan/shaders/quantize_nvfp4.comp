// E2M1 codes with an E4M3 scale per group of 16 and a scale for all; a work group takes a row, a thread a group.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/quantize.glsl"

struct QuantizeNvfp4Params {
  QuantizeSource source;
  uint64_t amax;
  uint64_t column_weight;
  uint64_t codes;
  uint64_t scale;
  uint64_t global_scale;
};
PARAMS(QuantizeNvfp4Params);

const int kE4M3LastCode = 0x7e;
const uint kE4M3Nan = 0x7f;
const float kE2M1Max = 6.0;
const int kScaleSteps[] = int[](1, -1, 2, -2, 3, 4, 5);  // kNvfp4ScaleSteps of core/ops/quantize.h

// The codes of a group by its scale, the first in the lowest bits.
uvec2 nvfp4_codes(float values[kGroup], float divisor) {
  uvec2 nibbles = uvec2(0);
  [[unroll]] for (uint i = 0; i < kGroup; ++i) {
    const uint code = is_zero(divisor) ? 0u : float_to_e2m1(exact_quotient(values[i], divisor));
    nibbles[i / 8] |= code << (i % 8 * 4);
  }
  return nibbles;
}

// Weighted squared error of a group by its scale, folded by halves.
float nvfp4_error(float values[kGroup], float column_weight[kGroup], float divisor) {
  const uvec2 codes = nvfp4_codes(values, divisor);
  precise float terms[kGroup];
  [[unroll]] for (uint i = 0; i < kGroup; ++i) {
    precise const float e = fma(-e2m1_to_float(codes[i / 8] >> (i % 8 * 4)), divisor, values[i]);
    terms[i] = column_weight[i] * e * e;
  }
  [[unroll]] for (uint count = kGroup / 2; count > 0; count /= 2) {
    [[unroll]] for (uint i = 0; i < count; ++i) terms[i] += terms[i + count];
  }
  return terms[0];
}

// The scale code near `plain` with the smallest error.
uint best_scale(float values[kGroup], uint64_t column_weight, float global_scale, uint plain) {
  if (plain == kE4M3Nan) return plain;
  float weights[kGroup];
  [[unroll]] for (uint i = 0; i < kGroup; ++i) weights[i] = load_f32(column_weight, i);
  uint best = plain;
  float least = nvfp4_error(values, weights, exact_product(e4m3_to_float(plain), global_scale));
  for (uint i = 0; i < kScaleSteps.length(); ++i) {
    const uint candidate = uint(clamp(int(plain) + kScaleSteps[i], 0, kE4M3LastCode));
    const float error = nvfp4_error(values, weights, exact_product(e4m3_to_float(candidate), global_scale));
    if (error < least) {
      least = error;
      best = candidate;
    }
  }
  return best;
}

void main() {
  const uint64_t row = gl_WorkGroupID.x;
  const uint num_groups = params.source.num_columns / kGroup;
  const float global_scale = divided_or_one(load_f32(params.amax, 0), kE4M3Max * kE2M1Max);
  if (row == 0 && thread_index() == 0) store_f32(params.global_scale, 0, global_scale);
  for (uint g = thread_index(); g < num_groups; g += kThreads) {
    float values[kGroup];
    uint largest = 0;
    [[unroll]] for (uint i = 0; i < kGroup; ++i) {
      values[i] = source_value(params.source, row, g * kGroup + i);
      largest = max(largest, magnitude_bits(values[i]));
    }
    uint scale = float_to_e4m3(exact_quotient(uintBitsToFloat(largest), exact_product(kE2M1Max, global_scale)));
    if (params.column_weight != 0) {
      scale = best_scale(values, params.column_weight + uint64_t(g) * kGroup * 4, global_scale, scale);
    }
    const uint64_t at = row * num_groups + g;
    store_u8(params.scale, at, scale);
    U32x2Ref(params.codes + at * 8).value = nvfp4_codes(values, exact_product(e4m3_to_float(scale), global_scale));
  }
}
