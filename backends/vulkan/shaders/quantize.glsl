// Matrices that are converted to weights (backends/gpu/quantize.inl). Largest magnitudes are maxima of integers, so the order in
// which they are found does not matter; a NaN beats all.
#include "backends/vulkan/shaders/exact_arithmetic.glsl"

struct QuantizeSource {
  uint64_t x;
  uint64_t stride;
  uint64_t num_rows;
  uint num_columns;
  uint is_bf16;
};

const uint kBlockExtent = 128;
const uint kGroup = 16;
const float kE4M3Max = 448.0;

float source_value(QuantizeSource source, uint64_t row, uint column) {
  return load_float(source.x, row * source.stride + column, source.is_bf16);
}

const uint kShuffled = kSubgroup < kLanes ? kSubgroup : kLanes;  // threads that exchange values at once
shared uint group_parts[kThreads / kShuffled];

// Largest over the work group; every thread gets it.
uint group_largest(uint value) {
  [[unroll]] for (uint mask = kShuffled / 2; mask > 0; mask /= 2) value = max(value, subgroupShuffleXor(value, mask));
  barrier();
  if (thread_index() % kShuffled == 0) group_parts[thread_index() / kShuffled] = value;
  barrier();
  value = 0;
  for (uint part = 0; part < kThreads / kShuffled; ++part) value = max(value, group_parts[part]);
  return value;
}

// 1 where the quotient is 0.
float divided_or_one(float amax, float divisor) {
  const float quotient = exact_quotient(amax, divisor);
  return is_zero(quotient) ? 1.0 : quotient;
}
