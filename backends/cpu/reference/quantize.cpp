// Quantising is defined in float32, so this oracle computes in float32 too: one operation at a time, rounded to nearest even.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/reference/host_tensor.h"
#include "backends/cpu/reference/reference.h"
#include "backends/cpu/reference/weight_access.h"

namespace foretoken {
namespace {

constexpr float kE4M3Max = 448.0F;
constexpr float kE2M1Max = 6.0F;
constexpr float kSmallestBlockScale = 1e-12F;
constexpr double kE4M3Nan = std::numeric_limits<double>::quiet_NaN();

/// Rows [n0, n1) and columns [k0, k1) of a matrix.
struct Range {
  int64_t n0, n1, k0, k1;
};

float abs_max(const HostTensor& x, const Range& range) {
  float amax = 0.0F;
  for (int64_t n = range.n0; n < range.n1; ++n) {
    for (int64_t k = range.k0; k < range.k1; ++k) {
      const float magnitude = std::fabs(static_cast<float>(x(n, k)));
      if (std::isnan(magnitude)) return magnitude;
      amax = std::max(amax, magnitude);
    }
  }
  return amax;
}

/// `divisor` > 0; 1 where the quotient is 0.
float divided_or_one(float amax, float divisor) {
  const float quotient = amax / divisor;
  return quotient == 0.0F ? 1.0F : quotient;
}

/// Stores E4M3(value); every NaN is the code 0x7f.
void set_e4m3(const HostTensor& codes, float value, int64_t n, int64_t k) {
  codes.set(std::isnan(value) ? kE4M3Nan : static_cast<double>(value), n, k);
}

void encode_fp8(const HostTensor& x, float scale, const HostTensor& codes, const Range& range) {
  for (int64_t n = range.n0; n < range.n1; ++n) {
    for (int64_t k = range.k0; k < range.k1; ++k) {
      set_e4m3(codes, std::clamp(static_cast<float>(x(n, k)) / scale, -kE4M3Max, kE4M3Max), n, k);
    }
  }
}

}  // namespace

void reference(const AbsMax& op) {
  const HostTensor x(op.x);
  HostTensor(op.amax).set(abs_max(x, {.n0 = 0, .n1 = x.dim(0), .k0 = 0, .k1 = x.dim(1)}), 0);
}

void reference(const QuantizeFp8Row& op) {
  const HostTensor x(op.x);
  const HostTensor codes(op.codes);
  const HostTensor scale(op.scale);
  for (int64_t n = 0; n < x.dim(0); ++n) {
    const Range row{.n0 = n, .n1 = n + 1, .k0 = 0, .k1 = x.dim(1)};
    const float s = divided_or_one(abs_max(x, row), kE4M3Max);
    scale.set(s, n);
    encode_fp8(x, s, codes, row);
  }
}

void reference(const QuantizeFp8Block& op) {
  const HostTensor x(op.x);
  const HostTensor codes(op.codes);
  const HostTensor scale(op.scale);
  for (int64_t row = 0; row < scale.dim(0); ++row) {
    for (int64_t column = 0; column < scale.dim(1); ++column) {
      const Range tile{.n0 = row * kFp8BlockExtent,
                       .n1 = std::min((row + 1) * kFp8BlockExtent, x.dim(0)),
                       .k0 = column * kFp8BlockExtent,
                       .k1 = std::min((column + 1) * kFp8BlockExtent, x.dim(1))};
      const float quotient = abs_max(x, tile) / kE4M3Max;
      const float s = quotient < kSmallestBlockScale ? kSmallestBlockScale : quotient;
      scale.set(s, row, column);
      encode_fp8(x, s, codes, tile);
    }
  }
}

void reference(const QuantizeNvfp4& op) {
  const HostTensor x(op.x);
  const HostTensor codes(op.codes);
  const HostTensor scale(op.scale);
  const float global_scale = divided_or_one(static_cast<float>(HostTensor(op.amax)(0)), kE4M3Max * kE2M1Max);
  HostTensor(op.global_scale).set(global_scale, 0);
  for (int64_t n = 0; n < x.dim(0); ++n) {
    for (int64_t group = 0; group < scale.dim(1); ++group) {
      const int64_t first = group * kNvfp4Group;
      const float amax = abs_max(x, {.n0 = n, .n1 = n + 1, .k0 = first, .k1 = first + kNvfp4Group});
      const float quotient = amax / (kE2M1Max * global_scale);
      set_e4m3(scale, quotient > kE4M3Max ? kE4M3Max : quotient, n, group);
      const float product = static_cast<float>(scale(n, group)) * global_scale;
      for (int64_t k = first; k < first + kNvfp4Group; ++k) {
        codes.set(product == 0.0F ? 0.0F : static_cast<float>(x(n, k)) / product, n, k);
      }
    }
  }
}

void reference(const Dequantize& op) {
  const WeightReader weight(op.w);
  const HostTensor out(op.out);
  for (int64_t n = 0; n < out.dim(0); ++n) {
    for (int64_t k = 0; k < out.dim(1); ++k) out.set(weight(n, k), n, k);
  }
}

}  // namespace foretoken
