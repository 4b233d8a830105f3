// Loads, conversions, reductions and scalar functions of the GPU kernels. Included once per kernel source, after its device.h.
#pragma once

namespace foretoken::gpu {

template <class T>
FORETOKEN_DEVICE T smaller(T a, T b) {
  return a < b ? a : b;
}

FORETOKEN_DEVICE float bits_to_float(uint32_t bits) { return __uint_as_float(bits); }
FORETOKEN_DEVICE uint32_t float_bits(float value) { return __float_as_uint(value); }

FORETOKEN_DEVICE float bf16_to_float(uint32_t bits) { return bits_to_float(bits << 16); }

/// Nearest BF16, ties to even; a NaN stays a quiet NaN.
FORETOKEN_DEVICE uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x0040U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

FORETOKEN_DEVICE float e4m3_to_float(uint8_t code) { return decode_e4m3x2(code).x; }

/// Nearest E4M3, ties to even, saturating at 448; every NaN is 0x7f.
FORETOKEN_DEVICE uint8_t float_to_e4m3(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = bits >> 24 & 0x80U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7fU;
  if (magnitude >= 0x43e00000U) return static_cast<uint8_t>(sign | 0x7eU);  // 448
  if (magnitude < 0x3c800000U) {                                            // below 2^-6: steps of 2^-9
    const float steps = rintf(bits_to_float(magnitude) * 512.0F);
    return static_cast<uint8_t>(sign | static_cast<uint32_t>(steps));
  }
  const uint32_t rounded = magnitude + 0x7ffffU + (magnitude >> 20 & 1U);
  const uint32_t code = (rounded >> 20) - (120U << 3);
  return static_cast<uint8_t>(sign | (code > 0x7eU ? 0x7eU : code));
}

/// Nearest E2M1, ties to the even code, saturating at 6; the sign of a negative value is kept, NaN gives +0.
FORETOKEN_DEVICE uint32_t float_to_e2m1(float value) {
  const float magnitude = fabsf(value);
  uint32_t code = 0;
  code += magnitude > 0.25F ? 1 : 0;
  code += magnitude >= 0.75F ? 1 : 0;
  code += magnitude > 1.25F ? 1 : 0;
  code += magnitude >= 1.75F ? 1 : 0;
  code += magnitude > 2.5F ? 1 : 0;
  code += magnitude >= 3.5F ? 1 : 0;
  code += magnitude > 5.0F ? 1 : 0;
  return code | (value < 0.0F ? 8U : 0U);
}

/// Elements of memory, by type; four of them where they begin at a multiple of four.
struct F32Element {
  FORETOKEN_DEVICE static float load(uint64_t base, uint64_t index) { return pointer<const float>(base)[index]; }
  FORETOKEN_DEVICE static float4 load_four(uint64_t base, uint64_t index) { return *pointer<const float4>(base + index * 4); }
  FORETOKEN_DEVICE static void store_four(uint64_t base, uint64_t index, float4 four) {
    *pointer<float4>(base + index * 4) = four;
  }
};
struct Bf16Element {
  FORETOKEN_DEVICE static float load(uint64_t base, uint64_t index) {
    return bf16_to_float(pointer<const uint16_t>(base)[index]);
  }
  FORETOKEN_DEVICE static float4 load_four(uint64_t base, uint64_t index) {
    const uint2 two = *pointer<const uint2>(base + index * 2);
    return {bits_to_float(two.x << 16), bits_to_float(two.x & 0xffff0000U), bits_to_float(two.y << 16),
            bits_to_float(two.y & 0xffff0000U)};
  }
  FORETOKEN_DEVICE static void store_four(uint64_t base, uint64_t index, float4 four) {
    const auto pair = [](float low, float high) { return uint32_t{float_to_bf16(low)} | uint32_t{float_to_bf16(high)} << 16; };
    *pointer<uint2>(base + index * 2) = {pair(four.x, four.y), pair(four.z, four.w)};
  }
};
struct E4m3Element {
  FORETOKEN_DEVICE static float load(uint64_t base, uint64_t index) { return e4m3_to_float(pointer<const uint8_t>(base)[index]); }
};

/// Calls `use` with the type of the elements: one branch for all the loads in it, so that they can be under way together.
template <class Use>
FORETOKEN_DEVICE void with_element(uint32_t is_bf16, Use use) {
  if (is_bf16 != 0) {
    use(Bf16Element{});
  } else {
    use(F32Element{});
  }
}

/// One element of memory that holds float32 or BF16.
FORETOKEN_DEVICE float load_float(uint64_t base, uint64_t index, bool is_bf16) {
  return is_bf16 ? Bf16Element::load(base, index) : F32Element::load(base, index);
}
FORETOKEN_DEVICE void store_float(uint64_t base, uint64_t index, float value, bool is_bf16) {
  if (is_bf16) {
    pointer<uint16_t>(base)[index] = float_to_bf16(value);
  } else {
    pointer<float>(base)[index] = value;
  }
}

FORETOKEN_DEVICE float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
FORETOKEN_DEVICE float silu(float x) { return x / (1.0F + expf(-x)); }
FORETOKEN_DEVICE float softplus(float x) { return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x))); }

FORETOKEN_DEVICE float lane_sum(float value) {
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value += lane_xor(value, mask);
  return value;
}
FORETOKEN_DEVICE float lane_max(float value) {
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value = fmaxf(value, lane_xor(value, mask));
  return value;
}

/// Sum over a work group of kThreads; every thread gets it. `scratch` holds kThreads / kLanes floats. The order is fixed.
template <int kThreads>
FORETOKEN_DEVICE float group_sum(float value, float* scratch) {
  value = lane_sum(value);
  __syncthreads();
  if (threadIdx.x % kLanes == 0) scratch[threadIdx.x / kLanes] = value;
  __syncthreads();
  float sum = 0.0F;
  for (int warp = 0; warp < kThreads / kLanes; ++warp) sum += scratch[warp];
  return sum;
}

/// A value and the lowest index that has it. NaN is below everything, and no candidate at all has index -1.
struct Candidate {
  float value;
  int32_t index;
};

FORETOKEN_DEVICE Candidate better(Candidate a, Candidate b) {
  if (b.index < 0) return a;
  if (a.index < 0) return b;
  if (a.value == b.value) return a.index < b.index ? a : b;
  return a.value > b.value ? a : b;
}

FORETOKEN_DEVICE Candidate lane_best(Candidate candidate) {
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    const Candidate other{lane_xor(candidate.value, mask), lane_xor(candidate.index, mask)};
    candidate = better(candidate, other);
  }
  return candidate;
}

/// A candidate unless the value is NaN.
FORETOKEN_DEVICE Candidate candidate_of(float value, int32_t index) { return Candidate{value, value == value ? index : -1}; }

}  // namespace foretoken::gpu
