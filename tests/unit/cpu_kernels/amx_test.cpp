// The AMX kernels with tiles in software, against the exact kernels of the same machine.
#include <cmath>

#include "core/ops/gated_delta_rule.h"
#include "core/ops/linear.h"
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
    for (int64_t i = 0; i < batch; ++i) slots.data()[i] = static_cast<int32_t>(batch - i);
    struct Result {
      std::vector<float> out, state;
    };
    const auto run = [&](uint32_t range, LinearPrecision precision, const std::string& expected) {
      DirectList list(Isa::kAvx512, range, emulated_kernels());
      const Floats state = random_floats({batch + 1, s.value_heads, s.key_dim, s.value_dim}, 6, 0.5F);
      const Floats out = zeros({rows, s.value_heads, s.value_dim});
      const GatedDeltaRule op{.qkv = qkv,
                              .b = b,
                              .a = a,
                              .A_log = a_log,
                              .dt_bias = dt_bias,
                              .query_start_loc = starts,
                              .state_slots = slots,
                              .state = state,
                              .key_record = {},
                              .delta_record = {},
                              .decay_record = {},
                              .out = out,
                              .precision = precision};
      EXPECT_EQ(chosen(list, "gated_delta_rule", op), expected);
      list.run(op);
      return Result{out.values(), state.values()};
    };
    const Result exact = run(UINT32_MAX, LinearPrecision::kExact, "cpu");
    const Result tiles = run(UINT32_MAX, LinearPrecision::kBF16, "amx");
    const Result parts = run(1, LinearPrecision::kBF16, "amx");
    EXPECT_LT(difference(tiles.out, exact.out), 5e-3);
    EXPECT_LT(difference(tiles.state, exact.state), 5e-3);
    EXPECT_TRUE(same_bits(tiles.out, parts.out));
    EXPECT_TRUE(same_bits(tiles.state, parts.state));
  }
}

}  // namespace
}  // namespace foretoken::cpu
