// Norms and rotary embedding: values, rows alone and together, slots of the cache.
#include <cmath>
#include <numeric>

#include "tests/unit/cpu_kernels/isa_test.h"

namespace foretoken::cpu {
namespace {

using NormTest = IsaTest;
FORETOKEN_ISA_TESTS(NormTest);

TEST_P(NormTest, RmsNormOfRowsIsRmsNormOfEachRow) {
  for (const int64_t hidden : {1, 15, 16, 80, 192, 1000}) {
    const Floats x = random_floats({5, hidden}, 1), weight = random_floats({hidden}, 2, 0.1F), out = zeros({5, hidden});
    DirectList(GetParam()).run(RmsNorm{.x = x, .weight = weight, .out = out, .eps = 1e-6F});
    const Floats alone = zeros({1, hidden});
    for (int64_t row = 0; row < 5; ++row) {
      DirectList(GetParam()).run(RmsNorm{.x = x.tensor().rows(row, 1), .weight = weight, .out = alone, .eps = 1e-6F});
      EXPECT_TRUE(same_bits(alone.values(), out.row(row))) << "H = " << hidden << ", row " << row;
      double squares = 0.0;
      for (const float value : x.row(row)) squares += static_cast<double>(value) * value;
      std::vector<double> expected;
      for (int64_t h = 0; h < hidden; ++h) {
        expected.push_back(x.row(row)[h] / std::sqrt(squares / static_cast<double>(hidden) + 1e-6) * (1.0 + weight.data()[h]));
      }
      EXPECT_LT(relative_error(out.row(row), expected), 1e-6);
    }
  }
}

TEST_P(NormTest, AddRmsNormIsTheSumAndItsNormInAnyPartition) {
  const Floats x = random_floats({7, 200}, 3), weight = random_floats({200}, 4, 0.1F);
  const Floats residual = random_floats({7, 200}, 5), sum = random_floats({7, 200}, 5), out = zeros({7, 200});
  for (size_t i = 0; i < sum.size(); ++i) sum.data()[i] += x.data()[i];
  DirectList(GetParam(), 2).run(AddRmsNorm{.x = x, .residual = residual, .weight = weight, .out = out, .eps = 1e-5F});
  EXPECT_TRUE(same_bits(residual.values(), sum.values()));
  const Floats normed = zeros({7, 200});
  DirectList(GetParam()).run(RmsNorm{.x = sum, .weight = weight, .out = normed, .eps = 1e-5F});
  EXPECT_TRUE(same_bits(out.values(), normed.values()));
}

TEST_P(NormTest, RopeTableAtLargePositions) {
  const Ints positions = ints({0, 1, 131071});
  const Floats table = zeros({3, 136});
  DirectList(GetParam(), 1).run(RopeTable{.positions = positions, .cos_sin = table, .theta = 1e7});
  for (size_t row = 0; row < 3; ++row) {
    for (size_t i = 0; i < 68; ++i) {
      const double angle = positions.data()[row] * std::pow(1e7, -2.0 * static_cast<double>(i) / 136.0);
      EXPECT_EQ(table.row(row)[i], static_cast<float>(std::cos(angle)));
      EXPECT_EQ(table.row(row)[68 + i], static_cast<float>(std::sin(angle)));
    }
  }
}

struct CacheCase {
  Floats q_gate = random_floats({4, 4, 2 * 64}, 11), k = random_floats({4, 2, 64}, 12), v = random_floats({4, 2, 64}, 13);
  Floats q_norm = random_floats({64}, 14, 0.1F), k_norm = random_floats({64}, 15, 0.1F), cos_sin = zeros({4, 16});
  Owned<int64_t> slots{DType::kI64, {4}, {5, -1, 0, 1000}};
  Floats q = zeros({4, 4, 64});

  explicit CacheCase(Isa isa) {
    DirectList(isa).run(RopeTable{.positions = ints({3, 4, 5, 6}), .cos_sin = cos_sin, .theta = 1e4});
  }
  template <class Cache>
  void run(Isa isa, const Cache& k_cache, const Cache& v_cache, uint32_t range, bool with_q) const {
    QkNormRopeCache op{.q_gate = {},
                       .k = k,
                       .v = v,
                       .q_norm = {},
                       .k_norm = k_norm,
                       .cos_sin = cos_sin,
                       .slot_mapping = slots,
                       .q = {},
                       .k_cache = k_cache,
                       .v_cache = v_cache,
                       .eps = 1e-6F};
    if (with_q) {
      op.q_gate = q_gate;
      op.q_norm = q_norm;
      op.q = q;
    }
    DirectList(isa, range).run(op);
  }
};

TEST_P(NormTest, CacheWriteIsNormAndRotationAndLeavesOtherSlots) {
  const CacheCase c(GetParam());
  const Floats k_cache = zeros({2, 4, 2, 64}), v_cache = zeros({2, 4, 2, 64});
  k_cache.fill(7.0F);
  v_cache.fill(7.0F);
  c.run(GetParam(), k_cache, v_cache, 3, true);

  const Floats expected_k = zeros({8, 64});
  DirectList(GetParam()).run(RmsNorm{.x = c.k.tensor().reshape({8, 64}), .weight = c.k_norm, .out = expected_k, .eps = 1e-6F});
  DirectList(GetParam()).run(Rope{.x = expected_k.tensor().reshape({4, 2, 64}), .cos_sin = c.cos_sin});
  for (const size_t slot : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const size_t row = slot == 5 ? 0 : 2;
    for (size_t i = 0; i < 128; ++i) {
      const bool written = slot == 5 || slot == 0;
      EXPECT_EQ(k_cache.data()[slot * 128 + i], written ? expected_k.data()[row * 128 + i] : 7.0F) << slot;
      EXPECT_EQ(v_cache.data()[slot * 128 + i], written ? c.v.data()[row * 128 + i] : 7.0F) << slot;
    }
  }
  for (size_t row = 0; row < 4; ++row) {
    const Floats query = zeros({4, 64});
    for (size_t head = 0; head < 4; ++head) {
      std::copy_n(c.q_gate.data() + (row * 4 + head) * 128, 64, query.data() + head * 64);
    }
    DirectList(GetParam()).run(RmsNorm{.x = query, .weight = c.q_norm, .out = query, .eps = 1e-6F});
    DirectList(GetParam()).run(Rope{.x = query.tensor().reshape({1, 4, 64}), .cos_sin = c.cos_sin.tensor().rows(row, 1)});
    EXPECT_TRUE(same_bits(c.q.row(row), query.values()));
  }
}

TEST_P(NormTest, Bf16CacheRoundsToNearestEvenAndNeedsNoQuery) {
  const CacheCase c(GetParam());
  const Floats k_cache = zeros({2, 4, 2, 64}), v_cache = zeros({2, 4, 2, 64});
  const Halves k_half(DType::kBF16, {2, 4, 2, 64}), v_half(DType::kBF16, {2, 4, 2, 64});
  c.run(GetParam(), k_cache, v_cache, 100, false);
  c.run(GetParam(), k_half, v_half, 1, false);
  for (size_t i = 0; i < k_cache.size(); ++i) {
    EXPECT_EQ(k_half.data()[i], float_to_bf16(k_cache.data()[i]));
    EXPECT_EQ(v_half.data()[i], float_to_bf16(v_cache.data()[i]));
  }
}

/// Values with every kind of code: ties, carries, subnormals, saturation, infinities and NaN.
std::vector<float> awkward_values(float scale) {
  std::vector<float> values;
  for (int code = 0; code < 0x7f; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code)), next = e4m3_to_float(static_cast<uint8_t>(code + 1));
    const float middle = code == 0x7e ? 464.0F : (value + next) / 2.0F;
    for (const float x : {value, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)}) values.push_back(x * scale);
  }
  for (const float x : {1e-30F, 1e-42F, 449.0F, 480.0F, 1e9F, std::numeric_limits<float>::infinity()}) values.push_back(x);
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return values;
}

TEST_P(NormTest, Fp8CacheHoldsTheCodesOfEveryValueOverTheScale) {
  for (const float scale : {1.0F, 0.0371F}) {
    const std::vector<float> values = awkward_values(scale);
    constexpr int64_t head_dim = 22;  // a whole vector and a part
    const auto rows = (static_cast<int64_t>(values.size()) + head_dim - 1) / head_dim;
    const Floats v = zeros({rows, 1, head_dim}), k = random_floats({rows, 1, head_dim}, 9, 3.0F);
    std::ranges::copy(values, v.data());
    const Owned<int64_t> slots(DType::kI64, {rows});
    std::iota(slots.data(), slots.data() + rows, 0);
    const Codes k_codes(DType::kE4M3, {rows, 1, 1, head_dim}), v_codes(DType::kE4M3, {rows, 1, 1, head_dim});
    const Floats k_exact = zeros({rows, 1, 1, head_dim}), v_exact = zeros({rows, 1, 1, head_dim});
    QkNormRopeCache op;
    op.k = k;
    op.v = v;
    op.slot_mapping = slots;
    const Floats k_norm = random_floats({head_dim}, 10, 0.3F), cos_sin = random_floats({rows, 6}, 11);
    op.k_norm = k_norm;
    op.cos_sin = cos_sin;
    op.k_cache = k_exact;
    op.v_cache = v_exact;
    DirectList(GetParam()).run(op);
    const Floats k_scale(DType::kF32, {1}, {0.02F}), v_scale(DType::kF32, {1}, {scale});
    op.k_cache = k_codes;
    op.v_cache = v_codes;
    op.k_scale = k_scale;
    op.v_scale = v_scale;
    DirectList(GetParam(), 3).run(op);
    for (size_t i = 0; i < k_codes.size(); ++i) {
      EXPECT_EQ(k_codes.data()[i], float_to_e4m3(k_exact.data()[i] / 0.02F)) << k_exact.data()[i];
      EXPECT_EQ(v_codes.data()[i], float_to_e4m3(v.data()[i] / scale)) << v.data()[i] << ", scale " << scale;
    }
  }
}

TEST_P(NormTest, RefusesBf16Activations) {
  const Halves x(DType::kBF16, {1, 16}), out(DType::kBF16, {1, 16});
  const Floats weight = zeros({16});
  try {
    DirectList(GetParam()).run(RmsNorm{.x = x, .weight = weight, .out = out});
    FAIL() << "must refuse";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("activations are float32 on the CPU"), std::string::npos);
  }
}

}  // namespace
}  // namespace foretoken::cpu
