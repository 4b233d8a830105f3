// Quantising is defined in float32, so this oracle computes in float32 too: one operation at a time, rounded to nearest even.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
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

/// The E4M3 code of `value`, which is not NaN, moved by `step` and brought into [0, 126]: its value.
float stepped_e4m3(float value, int32_t step) {
  std::byte code{};
  store_element(&code, DType::kE4M3, 0, value);
  code = static_cast<std::byte>(std::clamp(std::to_integer<int32_t>(code) + step, 0, 126));
  return static_cast<float>(load_element(&code, DType::kE4M3, 0));
}

/// One group of 16 columns of a row.
class Nvfp4Group {
 public:
  Nvfp4Group(const QuantizeNvfp4& op, float global_scale, int64_t n, int64_t group)
      : x_(op.x),
        column_weight_(op.column_weight),
        codes_(op.codes),
        scale_(op.scale),
        global_scale_(global_scale),
        n_(n),
        group_(group),
        first_(group * kNvfp4Group) {}

  void quantize() const {
    const float amax = abs_max(x_, {.n0 = n_, .n1 = n_ + 1, .k0 = first_, .k1 = first_ + kNvfp4Group});
    const float quotient = amax / (kE2M1Max * global_scale_);
    encode(quotient > kE4M3Max ? kE4M3Max : quotient);
    const auto plain = static_cast<float>(scale_(n_, group_));
    if (column_weight_ && !std::isnan(plain)) encode(best_scale(plain));
  }

 private:
  /// Scale and codes by E4M3(s).
  void encode(float s) const {
    set_e4m3(scale_, s, n_, group_);
    const float d = divisor();
    for (int64_t k = first_; k < first_ + kNvfp4Group; ++k) {
      codes_.set(d == 0.0F ? 0.0F : static_cast<float>(x_(n_, k)) / d, n_, k);
    }
  }

  [[nodiscard]] float divisor() const { return static_cast<float>(scale_(n_, group_)) * global_scale_; }

  /// Of what is encoded.
  [[nodiscard]] float error() const {
    std::array<float, kNvfp4Group> terms{};
    for (int64_t i = 0; i < kNvfp4Group; ++i) {
      const int64_t k = first_ + i;
      const float e = std::fma(-static_cast<float>(codes_(n_, k)), divisor(), static_cast<float>(x_(n_, k)));
      terms[static_cast<size_t>(i)] = static_cast<float>(column_weight_(k)) * e * e;
    }
    for (size_t half = terms.size() / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) terms[i] += terms[i + half];
    }
    return terms[0];
  }

  [[nodiscard]] float best_scale(float plain) const {
    float best = plain;
    float least = error();
    for (const int32_t step : kNvfp4ScaleSteps) {
      const float s = stepped_e4m3(plain, step);
      encode(s);
      const float candidate = error();
      if (candidate < least) {
        least = candidate;
        best = s;
      }
    }
    return best;
  }

  HostTensor x_;
  HostTensor column_weight_;
  HostTensor codes_;
  HostTensor scale_;
  float global_scale_;
  int64_t n_;
  int64_t group_;
  int64_t first_;
};

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
  const float global_scale = divided_or_one(static_cast<float>(HostTensor(op.amax)(0)), kE4M3Max * kE2M1Max);
  HostTensor(op.global_scale).set(global_scale, 0);
  for (int64_t n = 0; n < op.scale.dim(0); ++n) {
    for (int64_t group = 0; group < op.scale.dim(1); ++group) Nvfp4Group(op, global_scale, n, group).quantize();
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
