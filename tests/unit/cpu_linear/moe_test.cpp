// Routing and experts against plain loops; a row's result does not depend on the other rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/cpu/kernels/moe_params.h"
#include "tests/unit/cpu_linear/kernels.h"
#include "tests/unit/cpu_linear/weights.h"

namespace foretoken::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Routes {
  std::vector<int32_t> ids, offsets, pairs;
  std::vector<float> weights;
};

Routes run_route(Isa isa, const std::vector<float>& logits, size_t rows, size_t num_experts, size_t top_k, bool renormalise) {
  Routes routes{.ids = std::vector<int32_t>(rows * top_k, -1),
                .offsets = std::vector<int32_t>(num_experts + 1, -1),
                .pairs = std::vector<int32_t>(rows * top_k, -1),
                .weights = std::vector<float>(rows * top_k, kNan)};
  const MoeTopkParams topk{.logits = address_of(logits),
                           .topk_ids = address_of(routes.ids),
                           .topk_weights = address_of(routes.weights),
                           .logits_stride = num_experts,
                           .num_experts = static_cast<uint32_t>(num_experts),
                           .top_k = static_cast<uint32_t>(top_k),
                           .renormalise = renormalise ? 1U : 0U,
                           .reserved = 0};
  run_kernel(isa, "moe_topk", topk, static_cast<uint32_t>(rows), 2);
  const MoeGroupParams group{.topk_ids = address_of(routes.ids),
                             .expert_offsets = address_of(routes.offsets),
                             .expert_pairs = address_of(routes.pairs),
                             .num_experts = static_cast<uint32_t>(num_experts),
                             .num_pairs = static_cast<uint32_t>(rows * top_k)};
  run_kernel(isa, "moe_group", group, 1);
  return routes;
}

class CpuMoe : public testing::TestWithParam<Isa> {};

TEST_P(CpuMoe, RoutesToTheLargestLogits) {
  const size_t rows = 9, num_experts = 37, top_k = 6;
  std::vector<float> logits = random_floats(rows * num_experts, 4, 2.0F);
  for (float& logit : logits) logit = std::round(logit * 2.0F) / 2.0F;  // many ties
  logits[3] = kNan;
  for (const bool renormalise : {false, true}) {
    const Routes routes = run_route(GetParam(), logits, rows, num_experts, top_k, renormalise);
    for (size_t row = 1; row < rows; ++row) {
      const float* of_row = logits.data() + row * num_experts;
      std::vector<int32_t> order(num_experts);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return of_row[a] > of_row[b]; });
      double all = 0.0, picked = 0.0;
      for (size_t e = 0; e < num_experts; ++e) all += std::exp(static_cast<double>(of_row[e]));
      for (size_t s = 0; s < top_k; ++s) picked += std::exp(static_cast<double>(of_row[order[s]]));
      for (size_t s = 0; s < top_k; ++s) {
        EXPECT_EQ(routes.ids[row * top_k + s], order[s]);
        const double expected = std::exp(static_cast<double>(of_row[order[s]])) / (renormalise ? picked : all);
        EXPECT_NEAR(routes.weights[row * top_k + s], expected, 1e-6);
      }
    }
    for (size_t s = 0; s < top_k; ++s) EXPECT_NE(routes.ids[s], 3) << "a NaN was picked";
    for (size_t e = 0; e < num_experts; ++e) {
      std::vector<int32_t> expected;
      for (size_t pair = 0; pair < rows * top_k; ++pair) {
        if (routes.ids[pair] == static_cast<int32_t>(e)) expected.push_back(static_cast<int32_t>(pair));
      }
      ASSERT_LE(routes.offsets[e], routes.offsets[e + 1]);
      EXPECT_EQ(expected,
                std::vector<int32_t>(routes.pairs.begin() + routes.offsets[e], routes.pairs.begin() + routes.offsets[e + 1]));
    }
  }
}

struct Experts {
  size_t num_experts = 11, top_k = 3, hidden = 144, inner = 48;
  TestWeight gate_up, down;

  explicit Experts(const TestFormat& format)
      : gate_up(format, num_experts, 2 * inner, hidden, 5), down(format, num_experts, hidden, inner, 6) {}
};

struct RowInputs {
  std::vector<float> x, logits, shared, shared_gate;
};

std::vector<float> run_experts(Isa isa, const Experts& m, const RowInputs& in, size_t rows, bool with_shared) {
  const Routes routes = run_route(isa, in.logits, rows, m.num_experts, m.top_k, true);
  const size_t pairs = rows * m.top_k;
  const auto slots = static_cast<uint32_t>(std::min(pairs, m.num_experts));
  constexpr uint32_t kColumnTile = 16;
  const auto tiles = [](size_t n) { return static_cast<uint32_t>((n + kColumnTile - 1) / kColumnTile); };
  std::vector<float> act(pairs * m.inner, kNan), products(pairs * m.hidden, kNan), out(rows * m.hidden, kNan);
  const MoeExpertsParams up{.x = address_of(in.x),
                            .weight = m.gate_up.params(),
                            .expert_offsets = address_of(routes.offsets),
                            .expert_pairs = address_of(routes.pairs),
                            .out = address_of(act),
                            .x_stride = m.hidden,
                            .pairs_per_row = static_cast<uint32_t>(m.top_k),
                            .num_experts = static_cast<uint32_t>(m.num_experts),
                            .active_slots = slots,
                            .in_features = static_cast<uint32_t>(m.hidden),
                            .out_features = static_cast<uint32_t>(m.inner),
                            .column_tile = kColumnTile};
  run_kernel(isa, m.gate_up.kernel("moe_experts_up"), up, slots * tiles(m.inner), 3);
  MoeExpertsParams down = up;
  down.x = address_of(act);
  down.weight = m.down.params();
  down.out = address_of(products);
  down.x_stride = m.inner;
  down.pairs_per_row = 1;
  down.in_features = static_cast<uint32_t>(m.inner);
  down.out_features = static_cast<uint32_t>(m.hidden);
  run_kernel(isa, m.down.kernel("moe_experts_down"), down, slots * tiles(m.hidden), 3);
  const MoeJoinParams join{.products = address_of(products),
                           .topk_weights = address_of(routes.weights),
                           .shared = with_shared ? address_of(in.shared) : 0,
                           .shared_gate = with_shared ? address_of(in.shared_gate) : 0,
                           .out = address_of(out),
                           .shared_stride = m.hidden,
                           .shared_gate_stride = 1,
                           .out_stride = m.hidden,
                           .top_k = static_cast<uint32_t>(m.top_k),
                           .hidden_size = static_cast<uint32_t>(m.hidden)};
  run_kernel(isa, "moe_join", join, static_cast<uint32_t>(rows * ((m.hidden + kExpertJoinColumns - 1) / kExpertJoinColumns)));
  return out;
}

/// Row `row` of the layer in float64.
std::vector<double> expected_row(const Experts& m, const RowInputs& in, const Routes& routes, size_t row, bool with_shared) {
  std::vector<double> out(m.hidden, 0.0);
  for (size_t s = 0; s < m.top_k; ++s) {
    const auto expert = static_cast<size_t>(routes.ids[row * m.top_k + s]);
    const float* x = in.x.data() + row * m.hidden;
    std::vector<double> act(m.inner);
    for (size_t i = 0; i < m.inner; ++i) {
      const double gate = m.gate_up.dot(x, (2 * expert) * m.inner + i);
      const double up = m.gate_up.dot(x, (2 * expert + 1) * m.inner + i);
      act[i] = gate / (1.0 + std::exp(-gate)) * up;
    }
    for (size_t h = 0; h < m.hidden; ++h) {
      out[h] += static_cast<double>(routes.weights[row * m.top_k + s]) * m.down.dot(act.data(), expert * m.hidden + h);
    }
  }
  if (with_shared) {
    const double scale = 1.0 / (1.0 + std::exp(-static_cast<double>(in.shared_gate[row])));
    for (size_t h = 0; h < m.hidden; ++h) out[h] += scale * static_cast<double>(in.shared[row * m.hidden + h]);
  }
  return out;
}

TEST_P(CpuMoe, ExpertsAgreeWithFloat64AndRowsDoNotDependOnTheirCompany) {
  const size_t rows = 29;
  const Experts plain({WeightFormat::kF32});
  const RowInputs in{.x = random_floats(rows * plain.hidden, 7),
                     .logits = random_floats(rows * plain.num_experts, 8),
                     .shared = random_floats(rows * plain.hidden, 9),
                     .shared_gate = random_floats(rows, 10)};
  const Routes routes = run_route(GetParam(), in.logits, rows, plain.num_experts, plain.top_k, true);
  for (const TestFormat& format : formats_of(GetParam(), 16)) {
    SCOPED_TRACE(format.kernel_suffix());
    const Experts m(format);
    for (const bool with_shared : {false, true}) {
      const std::vector<float> together = run_experts(GetParam(), m, in, rows, with_shared);
      for (size_t row = 0; row < rows; ++row) {
        const auto cut = [row](const std::vector<float>& all, size_t width) {
          return std::vector<float>(all.begin() + static_cast<ptrdiff_t>(row * width),
                                    all.begin() + static_cast<ptrdiff_t>((row + 1) * width));
        };
        const RowInputs one{.x = cut(in.x, m.hidden),
                            .logits = cut(in.logits, m.num_experts),
                            .shared = cut(in.shared, m.hidden),
                            .shared_gate = cut(in.shared_gate, 1)};
        EXPECT_EQ(run_experts(GetParam(), m, one, 1, with_shared), cut(together, m.hidden)) << "row " << row;
        const std::vector<double> expected = expected_row(m, in, routes, row, with_shared);
        double largest = 0.0, error = 0.0;
        for (size_t h = 0; h < m.hidden; ++h) {
          largest = std::max(largest, std::abs(expected[h]));
          error = std::max(error, std::abs(static_cast<double>(together[row * m.hidden + h]) - expected[h]));
        }
        EXPECT_LT(error, 5e-6 * largest);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, CpuMoe, testing::ValuesIn(isas_of_this_machine()),
                         [](const auto& test) { return isa_name(test.param); });

}  // namespace
}  // namespace foretoken::cpu
