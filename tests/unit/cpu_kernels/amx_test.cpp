// The AMX kernels with tiles in software, against the exact kernels of the same machine.
#include <cmath>

#include "core/ops/gated_delta_rule.h"
#include "core/ops/linear.h"
#include "core/ops/quantize.h"
#include "tests/unit/cpu_kernels/isa_test.h"

namespace foretoken::cpu::emulated {
void add_amx_kernels(std::vector<KernelEntry>& list);
void add_amx_delta_kernels(std::vector<KernelEntry>& list);
}  // namespace foretoken::cpu::emulated

namespace foretoken::cpu {
namespace {

class AmxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs_here(Isa::kAvx512)) GTEST_SKIP() << "this machine lacks AVX-512";
  }
};

std::vector<KernelEntry> emulated_kernels() {
  std::vector<KernelEntry> list;
  emulated::add_amx_kernels(list);
  emulated::add_amx_delta_kernels(list);
  return list;
}

template <class Op>
std::string chosen(const DirectList& list, std::string_view name, const Op& op) {
  return list.ops().choose(name, &op).name;
}

/// max |a - b| / max |b|
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  return relative_error(a, std::vector<double>(b.begin(), b.end()));
}

struct DeltaSizes {
  std::vector<int32_t> starts;
  int64_t key_heads, value_heads, key_dim, value_dim;
};

TEST_F(AmxTest, DeltaRuleAgreesWithTheExactOne) {
  for (const DeltaSizes& s : {DeltaSizes{{0, 100}, 2, 2, 128, 128}, DeltaSizes{{0, 32, 33, 64, 130}, 1, 2, 64, 64},
                              DeltaSizes{{0, 1, 1, 64}, 2, 6, 32, 128}}) {
    const auto batch = static_cast<int64_t>(s.starts.size()) - 1;
    const int64_t rows = s.starts.back() + 3, channels = 2 * s.key_heads * s.key_dim + s.value_heads * s.value_dim;
    const Floats qkv = random_floats({rows, channels}, 1), b = random_floats({rows, s.value_heads}, 2);
    const Floats a = random_floats({rows, s.value_heads}, 3), a_log = random_floats({s.value_heads}, 4);
    const Floats dt_bias = random_floats({s.value_heads}, 5);
    const Ints starts = ints(s.starts);
    const Ints slots(DType::kI32, {batch});
    const Ints commits(DType::kI32, {batch});
    for (int64_t i = 0; i < batch; ++i) {
      slots.data()[i] = static_cast<int32_t>(batch - i);
      commits.data()[i] = static_cast<int32_t>(i % 3);
    }
    struct Result {
      std::vector<float> out, state;
    };
    const auto run = [&](uint32_t range, LinearPrecision precision, const std::string& expected) {
      DirectList list(Isa::kAvx512, range, emulated_kernels());
      const Floats state = random_floats({batch + 1, s.value_heads, s.key_dim, s.value_dim}, 6, 0.5F);
      const Floats out = zeros({rows, s.value_heads, s.value_dim});
      const Floats keys = random_floats({batch + 1, 4, s.value_heads, s.key_dim}, 9, 0.1F),
                   norm = random_floats({s.value_dim}, 7);
      const Floats deltas = random_floats({batch + 1, 4, s.value_heads, s.value_dim}, 10),
                   z = random_floats(out.tensor().shape(), 8);
      const Floats decays = zeros({batch + 1, 4, s.value_heads});
      decays.fill(0.75F);
      const GatedDeltaRule op{.qkv = qkv,
                              .b = b,
                              .a = a,
                              .A_log = a_log,
                              .dt_bias = dt_bias,
                              .query_start_loc = starts,
                              .state_slots = slots,
                              .num_commit = commits,
                              .state = state,
                              .key_record = keys,
                              .delta_record = deltas,
                              .decay_record = decays,
                              .z = z,
                              .norm = norm,
                              .out = out,
                              .precision = precision};
      EXPECT_EQ(chosen(list, "gated_delta_rule", op), expected);
      list.run(op);
      return Result{out.values(), state.values()};
    };
    const Result exact = run(UINT32_MAX, LinearPrecision::kExact, "cpu");
    const Result tiles = run(UINT32_MAX, LinearPrecision::kBF16, "amx");
    const Result parts = run(1, LinearPrecision::kBF16, "amx");
    EXPECT_LT(difference(tiles.out, exact.out), 1e-4);
    EXPECT_LT(difference(tiles.state, exact.state), 1e-4);
    EXPECT_TRUE(same_bits(tiles.out, parts.out));
    EXPECT_TRUE(same_bits(tiles.state, parts.state));
  }
}

struct LinearSizes {
  int64_t rows, k, n;
};

/// A weight of any format with random values, quantised by the CPU.
struct AnyWeight {
  Floats values;
  Halves bf16;
  Codes codes, scale_codes;
  Floats scale, global_scale;
  LinearWeight weight;

  AnyWeight(WeightFormat format, int64_t n, int64_t k, uint32_t seed)
      : values(random_floats({n, k}, seed, 0.05F)),
        bf16(DType::kBF16, {n, k}),
        codes(code_dtype(format) == DType::kE2M1 ? DType::kE2M1 : DType::kE4M3, {n, k}),
        scale_codes(DType::kE4M3, {n, std::max<int64_t>(k / kNvfp4Group, 1)}),
        scale(zeros(format == WeightFormat::kFp8Block ? scale_shape(format, {n, k}) : Shape{n})),
        global_scale(zeros({1})) {
    DirectList list(Isa::kAvx512);
    weight.format = format;
    switch (format) {
      case WeightFormat::kF32: break;
      case WeightFormat::kBF16:
        for (size_t i = 0; i < values.size(); ++i) {
          bf16.data()[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values.data()[i]) >> 16);
        }
        weight.weight = bf16;
        break;
      case WeightFormat::kFp8Row:
        list.run(QuantizeFp8Row{.x = values, .codes = codes, .scale = scale});
        weight.weight = codes;
        weight.scale = scale;
        break;
      case WeightFormat::kFp8Block:
        list.run(QuantizeFp8Block{.x = values, .codes = codes, .scale = scale});
        weight.weight = codes;
        weight.scale = scale;
        break;
      case WeightFormat::kNvfp4: {
        const Floats amax = zeros({1});
        list.run(AbsMax{.x = values, .amax = amax, .workspace = {}});
        list.run(QuantizeNvfp4{.x = values, .amax = amax, .codes = codes, .scale = scale_codes, .global_scale = global_scale});
        weight.weight = codes;
        weight.scale = scale_codes;
        weight.global_scale = global_scale;
        break;
      }
    }
  }
};

/// Runs linear and linear_silu_mul of x with BF16 activations.
struct PrefillResult {
  std::vector<float> linear, silu;
};

PrefillResult prefill(uint32_t range, const Floats& x, const LinearWeight& gate, const LinearWeight& up,
                      const std::string& expected) {
  DirectList list(Isa::kAvx512, range, emulated_kernels());
  const Floats out = zeros({x.tensor().dim(0), gate.out_features()});
  Linear linear{.x = x, .w = gate, .out = out, .workspace = {}, .precision = LinearPrecision::kBF16};
  EXPECT_EQ(chosen(list, "linear", linear), expected);
  list.run(linear);
  PrefillResult result{out.values(), {}};
  list.run(LinearSiluMul{.x = x, .gate = gate, .up = up, .out = out, .workspace = {}, .precision = LinearPrecision::kBF16});
  result.silu = out.values();
  return result;
}

TEST_F(AmxTest, LinearAgreesWithFloat64OnRoundedActivations) {
  for (const LinearSizes& s : {LinearSizes{16, 64, 32}, LinearSizes{65, 192, 208}, LinearSizes{40, 1024, 80}}) {
    const Floats x = random_floats({s.rows, s.k}, 1);
    const AnyWeight gate(WeightFormat::kBF16, s.n, s.k, 2), up(WeightFormat::kBF16, s.n, s.k, 3);
    const PrefillResult whole = prefill(UINT32_MAX, x, gate.weight, up.weight, "amx");
    const PrefillResult parts = prefill(1, x, gate.weight, up.weight, "amx");
    EXPECT_TRUE(same_bits(whole.linear, parts.linear));
    EXPECT_TRUE(same_bits(whole.silu, parts.silu));
    std::vector<double> linear, silu;
    const auto dot = [&](const Halves& w, int64_t row, int64_t n) {
      double sum = 0.0;
      for (int64_t k = 0; k < s.k; ++k) {
        sum += static_cast<double>(bf16_to_float(float_to_bf16(x.data()[row * s.k + k]))) *
               static_cast<double>(bf16_to_float(w.data()[n * s.k + k]));
      }
      return sum;
    };
    for (int64_t row = 0; row < s.rows; ++row) {
      for (int64_t n = 0; n < s.n; ++n) {
        linear.push_back(dot(gate.bf16, row, n));
        silu.push_back(linear.back() / (1.0 + std::exp(-linear.back())) * dot(up.bf16, row, n));
      }
    }
    EXPECT_LT(relative_error(whole.linear, linear), 1e-5);
    EXPECT_LT(relative_error(whole.silu, silu), 2e-5);
  }
}

TEST_F(AmxTest, LinearTakesQuantisedWeights) {
  for (const LinearSizes& s : {LinearSizes{33, 256, 48}, LinearSizes{16, 4096, 592}}) {  // the latter in three panels
    const Floats x = random_floats({s.rows, s.k}, 1), rounded = zeros({s.rows, s.k});
    for (size_t i = 0; i < x.size(); ++i) rounded.data()[i] = bf16_to_float(float_to_bf16(x.data()[i]));
    for (const WeightFormat format : {WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
      const AnyWeight gate(format, s.n, s.k, 2), up(format, s.n, s.k, 3);
      const PrefillResult tiles = prefill(7, x, gate.weight, up.weight, "amx");
      DirectList list(Isa::kAvx512);
      const Floats out = zeros({s.rows, s.n});
      const double bound = format == WeightFormat::kFp8Block ? 5e-3 : 1e-5;  // the other codes are exact in BF16
      list.run(Linear{.x = rounded, .w = gate.weight, .out = out, .workspace = {}});
      EXPECT_LT(difference(tiles.linear, out.values()), bound) << to_string(format);
      list.run(LinearSiluMul{.x = rounded, .gate = gate.weight, .up = up.weight, .out = out, .workspace = {}});
      EXPECT_LT(difference(tiles.silu, out.values()), 2 * bound) << to_string(format);
    }
  }
}

}  // namespace
}  // namespace foretoken::cpu
