// cos and sin of position * theta^(-2i/R), one thread per angle. No device need have float64, so angles are counted in fixed-point
// turns: 64 bits of a turn, of which the product with a position keeps what matters.
#version 460
#include "backends/vulkan/shaders/device.glsl"

struct RopeTableParams {
  uint64_t positions;
  uint64_t cos_sin;
  uint64_t theta;  // bits of a double
  uint num_rows;
  uint rotary_dim;
};
PARAMS(RopeTableParams);

const uint64_t kInverseTwoPi = 0x28be60db9391054aUL;  // times 2^64
const uint64_t kLn2 = 0xb17217f7d1cf79abUL;           // times 2^64

uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t low_word = 0xffffffffUL;
  const uint64_t p00 = (a & low_word) * (b & low_word);
  const uint64_t p01 = (a & low_word) * (b >> 32);
  const uint64_t p10 = (a >> 32) * (b & low_word);
  const uint64_t middle = (p00 >> 32) + (p01 & low_word) + (p10 & low_word);
  return (a >> 32) * (b >> 32) + (p01 >> 32) + (p10 >> 32) + (middle >> 32);
}

// log2 of a positive normal double, times 2^52: the bits of the fraction by squaring.
int64_t log2_fixed(uint64_t bits) {
  int64_t result = (int64_t(bits >> 52 & 0x7ffUL) - 1023) << 52;
  uint64_t x = (bits & 0xfffffffffffffUL | 1UL << 52) << 10;  // in [1, 2), times 2^62
  for (int bit = 51; bit >= 0; --bit) {
    x = multiply_high(x, x) << 2;
    if (x >= 1UL << 63) {
      x >>= 1;
      result |= 1L << bit;
    }
  }
  return result;
}

// 2^-exponent turns over 2 pi, times 2^64; `exponent` is times 2^52 and at least 0.
uint64_t frequency_fixed(int64_t exponent) {
  const uint64_t t = multiply_high(uint64_t(exponent & 0xfffffffffffffL) << 12, kLn2);  // e^-t = 2^-fraction
  const uint64_t one = 1UL << 63;
  uint64_t power = one;
  for (uint k = 20; k > 0; --k) power = one - multiply_high(t, power) / k;
  const uint whole = uint(exponent >> 52);
  return whole >= 64 ? 0UL : multiply_high(power, kInverseTwoPi) << 1 >> whole;
}

// cos and sin of an angle in turns times 2^64.
vec2 cos_sin_of(uint64_t turns) {
  const uint64_t quarter = turns + (1UL << 61) >> 62;
  const float x = float(int64_t(turns - (quarter << 62))) * 3.4061215800e-19;  // 2 pi / 2^64: within an eighth of a turn
  const float xx = x * x;
  float s = fma(xx, 2.7525562e-6, -1.9840874e-4);
  s = fma(s, xx, 8.3333310e-3);
  s = fma(s, xx, -1.6666667e-1);
  s = fma(s * xx, x, x);
  float c = fma(xx, -2.6051615e-7, 2.4760495e-5);
  c = fma(c, xx, -1.3888378e-3);
  c = fma(c, xx, 4.1666638e-2);
  c = fma(c, xx, -0.5);
  c = fma(c, xx, 1.0);
  switch (uint(quarter) & 3u) {
    case 0: return vec2(c, s);
    case 1: return vec2(-s, c);
    case 2: return vec2(-c, -s);
    default: return vec2(s, -c);
  }
}

void main() {
  const uint half_dim = params.rotary_dim / 2;
  const uint index = gl_WorkGroupID.x * kThreads + thread_index();
  if (index >= params.num_rows * half_dim) return;
  const uint row = index / half_dim;
  const uint i = index % half_dim;
  const int64_t log_theta = log2_fixed(params.theta);
  const int64_t exponent = log_theta / half_dim * i + log_theta % half_dim * i / half_dim;
  const uint64_t turns = uint64_t(int64_t(load_i32(params.positions, row))) * frequency_fixed(exponent);
  const vec2 pair = cos_sin_of(turns);
  const uint64_t at = uint64_t(row) * params.rotary_dim + i;
  store_f32(params.cos_sin, at, pair.x);
  store_f32(params.cos_sin, at + half_dim, pair.y);
}
