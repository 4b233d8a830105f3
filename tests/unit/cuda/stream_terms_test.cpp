// Rows of x as sums of E2M1 terms, and what the lanes of a warp hand to the block-scaled tensor cores: the text of the kernels,
// against the layouts of the PTX ISA, in float64.
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#define FORETOKEN_DEVICE inline

namespace foretoken::gpu {
namespace {
float bits_to_float(uint32_t bits) { return std::bit_cast<float>(bits); }
float2 halves_to_floats(const __half2_raw& halves) { return __half22float2(__half2(halves)); }
}  // namespace
}  // namespace foretoken::gpu

#include "backends/cuda/kernels/stream_terms.inl"

namespace foretoken::cuda {
namespace {

constexpr uint32_t kElements = kStreamBlockScaled.slice_elements;
constexpr uint32_t kTermShift = 3;
using Bf16Row = std::array<uint16_t, kElements>;

double bf16(uint16_t bits) { return gpu::bits_to_float(uint32_t{bits} << 16); }

uint16_t to_bf16(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

double e2m1(uint32_t code) {
  constexpr std::array kMagnitudes{0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  return (code & 8U) != 0 ? -kMagnitudes[code & 7U] : kMagnitudes[code & 7U];
}

double e4m3(uint32_t code) {
  const double sign = (code & 0x80U) != 0 ? -1.0 : 1.0;
  const auto exponent = static_cast<int>(code >> 3 & 0xfU);
  const double mantissa = code & 7U;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10));
}

/// Rows of x, split as a warp splits a slice.
class SplitRows {
 public:
  explicit SplitRows(const std::vector<Bf16Row>& rows)
      : memory_((kSliceGroups * kStreamBlockScaled.x_group_bytes * rows.size() + 7) / 8),
        terms_(reinterpret_cast<uint8_t*>(memory_.data()), static_cast<uint32_t>(rows.size())) {
    for (uint32_t row = 0; row < rows.size(); ++row) {
      const uint32_t exponent = slice_exponent(largest(rows[row], 0, kElements));
      factors_.push_back(slice_factor(exponent));
      for (uint32_t group = 0; group < kSliceGroups; ++group) {
        uint32_t halves[2][4];
        for (uint32_t pair = 0; pair < 8; ++pair) {
          const uint32_t k = group * 16 + pair * 2;
          halves[pair / 4][pair % 4] = uint32_t{rows[row][k]} | uint32_t{rows[row][k + 1]} << 16;
        }
        terms_.store(row, group, halves, largest(rows[row], group * 16, 16), exponent);
      }
    }
  }

  [[nodiscard]] const TermSlice& terms() const { return terms_; }
  [[nodiscard]] float factor(uint32_t row) const { return factors_[row]; }

  /// Element k of a row as the sum of its terms, from the registers of the lane that holds it.
  [[nodiscard]] double element(uint32_t row, uint32_t k) const {
    const uint32_t product = k / kBlockScaledDepth;
    const uint32_t in_product = k % kBlockScaledDepth;
    const uint32_t lane = row * 4 + in_product % 32 / 8;
    double sum = 0;
    for (uint32_t term = 0; term < kTerms; ++term) {
      const uint2 codes = terms_.codes(product, term, lane);
      const uint32_t word = in_product < 32 ? codes.x : codes.y;
      sum += std::ldexp(e2m1(word >> (in_product % 8 * 4) & 0xfU), -static_cast<int>(kTermShift * term));
    }
    return sum * e4m3(terms_.scale_word(product, lane) >> (in_product / 16 * 8) & 0xffU) * factors_[row];
  }

 private:
  static uint32_t largest(const Bf16Row& row, uint32_t first, uint32_t count) {
    uint32_t most = 0;
    for (uint32_t k = first; k < first + count; ++k) most = std::max(most, uint32_t{row[k]} & 0x7fffU);
    return most;
  }

  std::vector<uint64_t> memory_;
  TermSlice terms_;
  std::vector<float> factors_;
};

/// Checks every element of a row against the documented bounds.
void expect_reproduced(const Bf16Row& row) {
  const SplitRows split({row});
  double slice_largest = 0;
  for (const uint16_t value : row) slice_largest = std::max(slice_largest, std::abs(bf16(value)));
  for (uint32_t k = 0; k < kElements; ++k) {
    double largest = 0;
    for (uint32_t i = k / 16 * 16; i < k / 16 * 16 + 16; ++i) largest = std::max(largest, std::abs(bf16(row[i])));
    const double value = bf16(row[k]);
    const double error = std::abs(split.element(0, k) - value);
    const double bound = std::max({largest * 0x1p-14, slice_largest * 0x1p-32, 0x1p-139});
    ASSERT_LE(error, bound) << "element " << k << " = " << value << " beside " << largest << " and " << slice_largest;
    const bool high = std::abs(value) > 0 && std::ilogb(value) >= std::ilogb(largest) - 7;
    if (high && std::ilogb(largest) >= std::ilogb(slice_largest) - 17 && largest >= 0x1p-100) {
      ASSERT_EQ(error, 0) << "element " << k << " = " << value << " beside " << largest;
    }
  }
}

TEST(StreamTerms, ReproduceEveryMantissaBesideEveryLargest) {
  for (uint32_t largest = 0; largest < 128; ++largest) {
    for (uint32_t below = 0; below < 24; ++below) {
      Bf16Row row{};
      uint32_t mantissa = 0;
      for (uint32_t k = 0; k < kElements; ++k) {
        const uint32_t sign = k % 3 == 0 ? 0x8000U : 0;
        row[k] = static_cast<uint16_t>(sign | (k % 16 == 0 ? 130U << 7 | largest : (130U - below) << 7 | mantissa++ % 128));
        if (below == 0 && (row[k] & 0x7fU) > largest) row[k] = static_cast<uint16_t>((row[k] & 0xff80U) | largest);
      }
      ASSERT_NO_FATAL_FAILURE(expect_reproduced(row)) << largest << ' ' << below;
    }
  }
}

TEST(StreamTerms, ReproduceRandomRowsOfAnyRange) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (const double spread : {0.0, 2.0, 10.0, 40.0}) {
    for (int trial = 0; trial < 200; ++trial) {
      Bf16Row row{};
      double exponent = 0;
      for (uint32_t k = 0; k < kElements; ++k) {
        if (k % 16 == 0) exponent = std::clamp(spread * normal(random), -130.0, 120.0);
        row[k] = to_bf16(normal(random) * std::exp2(exponent));
      }
      ASSERT_NO_FATAL_FAILURE(expect_reproduced(row));
    }
  }
}

TEST(StreamTerms, ReproduceExtremeRows) {
  Bf16Row row{};
  ASSERT_NO_FATAL_FAILURE(expect_reproduced(row));
  row.fill(0x7f7f);  // the largest finite number
  ASSERT_NO_FATAL_FAILURE(expect_reproduced(row));
  row.fill(0x0001);  // the least subnormal number
  ASSERT_NO_FATAL_FAILURE(expect_reproduced(row));
  for (uint32_t k = 0; k < kElements; ++k) row[k] = static_cast<uint16_t>(k / 16 * 0x07f0U + k % 16);  // every range at once
  ASSERT_NO_FATAL_FAILURE(expect_reproduced(row));
}

TEST(StreamTerms, InfinityAndNanBecomeNan) {
  for (const uint16_t value : {uint16_t{0x7f80}, uint16_t{0xff80}, uint16_t{0x7fc0}}) {
    Bf16Row row{};
    row[100] = value;
    EXPECT_TRUE(std::isnan(SplitRows({row}).factor(0)));
  }
}

/// A slice of 16 weight rows as it lies in a stage of the ring.
struct WeightTile {
  static constexpr uint32_t kRowStride = kSliceBytes + 16;
  static constexpr uint32_t kScaleStride = 32;
  alignas(16) std::array<uint8_t, 16 * kRowStride> codes{};
  alignas(16) std::array<uint8_t, 16 * kScaleStride> scales{};

  explicit WeightTile(std::mt19937& random) {
    for (uint8_t& byte : codes) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : scales) byte = static_cast<uint8_t>(random() % 0x7f | (random() % 4 == 0 ? 0x80U : 0));  // never NaN
  }
  [[nodiscard]] double element(uint32_t row, uint32_t k) const {
    return e2m1(codes[row * kRowStride + k / 2] >> (k % 2 * 4) & 0xfU) * e4m3(scales[row * kScaleStride + k / 16]);
  }
};

/// Registers of a warp: what one instruction takes.
struct Lane {
  WeightOperand a;
  uint2 b;
  uint32_t b_scales;
};
using Warp = std::array<Lane, 32>;

double code_of(uint32_t word, uint32_t index) { return e2m1(word >> (index * 4) & 0xfU); }
double unsigned_scale(uint32_t word, uint32_t group) { return e4m3(word >> (group * 8) & 0x7fU); }

/// mma.m16n8k64 with scale_vec::4X and selectors of 0, by the tables of the PTX ISA: row r and column c over all k.
double instruction(const Warp& warp, uint32_t r, uint32_t c) {
  double sum = 0;
  for (uint32_t k = 0; k < 64; ++k) {
    const uint32_t thread_in_group = k % 32 / 8;
    const uint32_t a_index = (k / 32) * 16 + (r / 8) * 8 + k % 8;  // a0 ... a31
    const uint32_t b_index = (k / 32) * 8 + k % 8;                 // b0 ... b15
    const Lane& a_lane = warp[r % 8 * 4 + thread_in_group];
    const Lane& b_lane = warp[c * 4 + thread_in_group];
    const double a = code_of(a_lane.a.codes[a_index / 8], a_index % 8);
    const double b = code_of(b_index < 8 ? b_lane.b.x : b_lane.b.y, b_index % 8);
    const double a_scale = unsigned_scale(warp[r % 8 * 4 + r / 8].a.scales, k / 16);
    const double b_scale = unsigned_scale(warp[c * 4].b_scales, k / 16);
    sum += a * a_scale * b * b_scale;
  }
  return sum;
}

TEST(BlockScaledProduct, OfAWarpIsThatOfTheDecodedOperands) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (const uint32_t num_rows : {1U, 3U, 8U}) {
    const WeightTile tile(random);
    std::vector<Bf16Row> rows(num_rows);
    for (Bf16Row& row : rows) {
      for (uint16_t& value : row) value = to_bf16(normal(random));
    }
    const SplitRows x(rows);
    std::array<float[kTerms][4], 32> sums{};
    for (uint32_t product = 0; product < kSliceProducts; ++product) {
      for (uint32_t term = 0; term < kTerms; ++term) {
        Warp warp{};
        for (uint32_t lane = 0; lane < 32; ++lane) {
          warp[lane].a = weight_operand(tile.codes.data() + product * 32, WeightTile::kRowStride,
                                        tile.scales.data() + product * 4, WeightTile::kScaleStride, lane);
          if (lane / 4 >= num_rows) continue;
          warp[lane].b = x.terms().codes(product, term, lane);
          warp[lane].b_scales = x.terms().scale_word(product, lane);
        }
        for (uint32_t lane = 0; lane < 32; ++lane) {
          for (uint32_t i = 0; i < 4; ++i) {
            sums[lane][term][i] += static_cast<float>(instruction(warp, lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2));
          }
        }
      }
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t weight_row = lane / 4 + i / 2 * 8;
        const uint32_t row = lane % 4 * 2 + i % 2;
        if (row >= num_rows) continue;
        double expected = 0;
        double magnitude = 0;
        double lost = 0;
        for (uint32_t k = 0; k < kElements; ++k) {
          const double w = tile.element(weight_row, k);
          expected += w * bf16(rows[row][k]);
          magnitude += std::abs(w * bf16(rows[row][k]));
          lost += std::abs(w * (x.element(row, k) - bf16(rows[row][k])));
        }
        const double result = join_terms(sums[lane], i) * x.factor(row);
        EXPECT_NEAR(result, expected, lost + magnitude * 0x1p-22) << weight_row << ' ' << row << " of " << num_rows;
        EXPECT_LE(lost, magnitude * 1e-5) << "the tolerance of linear";
      }
    }
  }
}

TEST(BlockScaledProduct, RowsHaveTheSameRegistersInAnyCompany) {
  std::mt19937 random(13);
  std::normal_distribution<double> normal;
  std::vector<Bf16Row> rows(8);
  for (Bf16Row& row : rows) {
    for (uint16_t& value : row) value = to_bf16(normal(random));
  }
  const SplitRows all(rows);
  for (uint32_t row = 0; row < rows.size(); ++row) {
    const SplitRows alone({rows[row]});
    EXPECT_EQ(alone.factor(0), all.factor(row));
    for (uint32_t product = 0; product < kSliceProducts; ++product) {
      for (uint32_t t = 0; t < 4; ++t) {
        EXPECT_EQ(alone.terms().scale_word(product, t), all.terms().scale_word(product, row * 4 + t));
        for (uint32_t term = 0; term < kTerms; ++term) {
          const uint2 one = alone.terms().codes(product, term, t);
          const uint2 other = all.terms().codes(product, term, row * 4 + t);
          EXPECT_EQ(one.x, other.x);
          EXPECT_EQ(one.y, other.y);
        }
      }
    }
  }
}

}  // namespace
}  // namespace foretoken::cuda
