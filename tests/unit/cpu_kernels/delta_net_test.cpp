// Gated delta net: rows together and one by one, recorded and committed, all to the bit; values against float64.
#include <cmath>
#include <random>

#include "tests/unit/cpu_kernels/isa_test.h"

namespace foretoken::cpu {
namespace {

using DeltaNetTest = IsaTest;
FORETOKEN_ISA_TESTS(DeltaNetTest);

struct Geometry {
  int64_t key_heads = 2;
  int64_t value_heads = 4;
  int64_t key_dim = 64;
  int64_t value_dim = 64;
  int64_t slots = 3;
  int64_t record_rows = 5;

  [[nodiscard]] int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};

constexpr float kEps = 1e-5F;

/// The recurrent states and records of one layer.
struct States {
  Geometry g;
  Floats conv_state, state, conv_record, key_record, delta_record, decay_record;

  explicit States(const Geometry& geometry)
      : g(geometry),
        conv_state(random_floats({g.slots, g.channels(), 3}, 21)),
        state(random_floats({g.slots, g.value_heads, g.key_dim, g.value_dim}, 22)),
        conv_record(zeros({g.slots, g.record_rows, g.channels()})),
        key_record(zeros({g.slots, g.record_rows, g.value_heads, g.key_dim})),
        delta_record(zeros({g.slots, g.record_rows, g.value_heads, g.value_dim})),
        decay_record(zeros({g.slots, g.record_rows, g.value_heads})) {}
};

/// Inputs of `rows` rows and the weights.
struct Inputs {
  Floats x, b, a, z, conv_weight, a_log, dt_bias, norm;

  Inputs(const Geometry& g, int64_t rows)
      : x(random_floats({rows, g.channels()}, 1)),
        b(random_floats({rows, g.value_heads}, 2)),
        a(random_floats({rows, g.value_heads}, 3)),
        z(random_floats({rows, g.value_heads, g.value_dim}, 7)),
        conv_weight(random_floats({g.channels(), 4}, 4)),
        a_log(random_floats({g.value_heads}, 5)),
        dt_bias(random_floats({g.value_heads}, 6)),
        norm(random_floats({g.value_dim}, 8)) {}
};

struct Step {
  int64_t first;  // row of the inputs
  std::vector<int32_t> counts;
  std::vector<int32_t> slots;
  StateUpdate update = StateUpdate::kInPlace;
  std::vector<int32_t> commits = {};  // empty: no operand
};

/// Convolution and delta rule of a step; returns the outputs of its rows.
std::vector<float> run(Isa isa, uint32_t range, const States& s, const Inputs& in, const Step& step) {
  std::vector<int32_t> starts = {0};
  for (const int32_t count : step.counts) starts.push_back(starts.back() + count);
  const int64_t rows = starts.back();
  const Geometry& g = s.g;
  const Floats mixed = zeros({rows, g.channels()}), out = zeros({rows, g.value_heads, g.value_dim});
  const Ints query_start_loc = ints(starts), slots = ints(step.slots), commits = ints(step.commits);
  const Tensor num_commit = step.commits.empty() ? Tensor() : commits.tensor();
  DirectList list(isa, range);
  list.run(CausalConv1dSilu{.x = in.x.tensor().rows(step.first, rows),
                            .weight = in.conv_weight,
                            .query_start_loc = query_start_loc,
                            .state_slots = slots,
                            .num_commit = num_commit,
                            .conv_state = s.conv_state,
                            .conv_record = s.conv_record,
                            .out = mixed,
                            .update = step.update});
  list.run(GatedDeltaRule{.qkv = mixed,
                          .b = in.b.tensor().rows(step.first, rows),
                          .a = in.a.tensor().rows(step.first, rows),
                          .A_log = in.a_log,
                          .dt_bias = in.dt_bias,
                          .query_start_loc = query_start_loc,
                          .state_slots = slots,
                          .num_commit = num_commit,
                          .state = s.state,
                          .key_record = s.key_record,
                          .delta_record = s.delta_record,
                          .decay_record = s.decay_record,
                          .z = in.z.tensor().rows(step.first, rows),
                          .norm = in.norm,
                          .out = out,
                          .eps = kEps,
                          .update = step.update});
  return out.values();
}

void expect_same_states(const States& a, const States& b) {
  EXPECT_TRUE(same_bits(a.state.values(), b.state.values()));
  EXPECT_TRUE(same_bits(a.conv_state.values(), b.conv_state.values()));
}

const std::vector<Geometry>& geometries() {
  static const std::vector<Geometry> list = {{},
                                             {.key_heads = 1, .value_heads = 2, .key_dim = 128, .value_dim = 128},
                                             {.key_heads = 1, .value_heads = 3, .key_dim = 7, .value_dim = 21}};
  return list;
}

/// One head of a row, normed and gated.
void append_gated(const Inputs& in, size_t first, const std::vector<double>& o, std::vector<double>& out) {
  double squares = 0.0;
  for (const double value : o) squares += value * value;
  const double root = std::sqrt(squares / static_cast<double>(o.size()) + static_cast<double>(kEps));
  for (size_t d = 0; d < o.size(); ++d) {
    const double z = in.z.data()[first + d];
    out.push_back(in.norm.data()[d] * o[d] / root * z / (1.0 + std::exp(-z)));
  }
}

/// float64 convolution, delta rule and gated norm of rows 0 .. rows of sequence `slot`; updates the double states.
std::vector<double> reference(const States& s, const Inputs& in, size_t slot, size_t rows, std::vector<double>& state) {
  const auto C = static_cast<size_t>(s.g.channels()), nk = static_cast<size_t>(s.g.key_heads),
             nv = static_cast<size_t>(s.g.value_heads);
  const auto dk = static_cast<size_t>(s.g.key_dim), dv = static_cast<size_t>(s.g.value_dim);
  std::vector<double> out;
  for (size_t t = 0; t < rows; ++t) {
    std::vector<double> mixed(C);
    for (size_t c = 0; c < C; ++c) {
      for (size_t j = 0; j < 4; ++j) {
        const double input = t + j < 3 ? s.conv_state.data()[(slot * C + c) * 3 + t + j] : in.x.data()[(t + j - 3) * C + c];
        mixed[c] += in.conv_weight.data()[c * 4 + j] * input;
      }
      mixed[c] /= 1.0 + std::exp(-mixed[c]);
    }
    for (size_t h = 0; h < nv; ++h) {
      std::vector<double> q(dk), k(dk);
      double qq = 1e-6, kk = 1e-6;
      for (size_t i = 0; i < dk; ++i) {
        q[i] = mixed[h / (nv / nk) * dk + i];
        k[i] = mixed[(nk + h / (nv / nk)) * dk + i];
        qq += q[i] * q[i];
        kk += k[i] * k[i];
      }
      const double decay = std::exp(-std::exp(static_cast<double>(in.a_log.data()[h])) *
                                    std::log1p(std::exp(static_cast<double>(in.a.data()[t * nv + h]) + in.dt_bias.data()[h])));
      const double beta = 1.0 / (1.0 + std::exp(-static_cast<double>(in.b.data()[t * nv + h])));
      std::vector<double> head;
      for (size_t d = 0; d < dv; ++d) {
        double* column = state.data() + h * dk * dv + d;
        double kv = 0.0, o = 0.0;
        for (size_t i = 0; i < dk; ++i) kv += decay * column[i * dv] * k[i] / std::sqrt(kk);
        const double delta = beta * (mixed[2 * nk * dk + h * dv + d] - kv);
        for (size_t i = 0; i < dk; ++i) {
          column[i * dv] = decay * column[i * dv] + k[i] / std::sqrt(kk) * delta;
          o += column[i * dv] * q[i] / std::sqrt(qq * static_cast<double>(dk));
        }
        head.push_back(o);
      }
      append_gated(in, (t * nv + h) * dv, head, out);
    }
  }
  return out;
}

TEST_P(DeltaNetTest, ValuesAgainstFloat64) {
  for (const Geometry& g : geometries()) {
    const States s(g);
    const Inputs in(g, 9);
    const std::vector<float> initial = s.state.row(1);
    std::vector<double> state(initial.begin(), initial.end());
    const std::vector<double> expected = reference(s, in, 1, 9, state);
    const std::vector<float> out = run(GetParam(), 3, s, in, {.first = 0, .counts = {9}, .slots = {1}});
    EXPECT_LT(relative_error(out, expected), 1e-5);
    EXPECT_LT(relative_error(s.state.row(1), state), 1e-5);
    const States untouched(g);
    EXPECT_TRUE(same_bits(s.state.row(0), untouched.state.row(0)));
    EXPECT_TRUE(same_bits(s.state.row(2), untouched.state.row(2)));
    for (int64_t c = 0; c < g.channels(); ++c) {
      for (int64_t j = 0; j < 3; ++j) {
        EXPECT_EQ(s.conv_state.row(1)[c * 3 + j], in.x.row(static_cast<size_t>(6 + j))[c]);
      }
    }
  }
}

TEST_P(DeltaNetTest, RowsTogetherAreRowsOneByOne) {
  for (const Geometry& g : geometries()) {
    const Inputs in(g, 11);
    const States together(g), apart(g), batched(g);
    const std::vector<float> out = run(GetParam(), UINT32_MAX, together, in, {.first = 0, .counts = {11}, .slots = {2}});
    std::vector<float> row_by_row;
    for (int64_t row = 0; row < 11; ++row) {
      const std::vector<float> one = run(GetParam(), 1, apart, in, {.first = row, .counts = {1}, .slots = {2}});
      row_by_row.insert(row_by_row.end(), one.begin(), one.end());
    }
    EXPECT_TRUE(same_bits(out, row_by_row));
    expect_same_states(together, apart);
    // Two calls, among sequences without rows and with a slot of -1.
    (void)run(GetParam(), 5, batched, in, {.first = 0, .counts = {0, 2, 0}, .slots = {0, 2, -1}});
    (void)run(GetParam(), 5, batched, in, {.first = 2, .counts = {0, 9}, .slots = {1, 2}});
    expect_same_states(batched, apart);
  }
}

TEST_P(DeltaNetTest, CommitIsSteppingRowByRow) {
  std::mt19937 generator(7);
  for (const Geometry& g : geometries()) {
    const Inputs in(g, 80);
    const States speculated(g), stepped(g);
    const auto row_floats = g.value_heads * g.value_dim;
    int64_t first = 0;
    int32_t accepted = 0;
    std::vector<float> out_speculated, out_stepped;
    for (int round = 0; round < 15; ++round) {
      const bool last = round == 14;
      const auto rows = last ? 1 : static_cast<int32_t>(generator() % static_cast<uint32_t>(g.record_rows)) + 1;
      const std::vector<float> out = run(GetParam(), 3, speculated, in,
                                         {.first = first,
                                          .counts = {rows},
                                          .slots = {1},
                                          .update = last ? StateUpdate::kInPlace : StateUpdate::kRecord,
                                          .commits = {accepted}});
      if (!last) expect_same_states(speculated, stepped);  // what was accepted, and no more
      accepted = last ? 1 : static_cast<int32_t>(generator() % static_cast<uint32_t>(rows + 1));
      out_speculated.insert(out_speculated.end(), out.begin(), out.begin() + accepted * row_floats);
      for (int32_t i = 0; i < accepted; ++i, ++first) {
        const std::vector<float> one = run(GetParam(), 7, stepped, in, {.first = first, .counts = {1}, .slots = {1}});
        out_stepped.insert(out_stepped.end(), one.begin(), one.end());
      }
    }
    EXPECT_GT(first, 5);
    EXPECT_TRUE(same_bits(out_speculated, out_stepped));
    expect_same_states(speculated, stepped);
  }
}

TEST_P(DeltaNetTest, NothingToCommitTouchesNothing) {
  const Geometry g;
  const Inputs in(g, 3);
  const States s(g), untouched(g);
  s.delta_record.fill(std::numeric_limits<float>::quiet_NaN());
  s.conv_record.fill(std::numeric_limits<float>::quiet_NaN());
  // Rows but no commit; a commit but no rows; no slot.
  (void)run(GetParam(), 1, s, in,
            {.first = 0, .counts = {2, 0, 1}, .slots = {0, 1, -1}, .update = StateUpdate::kRecord, .commits = {0, 2, 3}});
  expect_same_states(s, untouched);
}

TEST_P(DeltaNetTest, CommitOfSeveralSequences) {
  const Geometry g;
  const Inputs in(g, 9);
  const States batch(g), alone(g);
  (void)run(GetParam(), 4, batch, in, {.first = 0, .counts = {2, 3}, .slots = {2, 0}, .update = StateUpdate::kRecord});
  (void)run(GetParam(), 9, batch, in, {.first = 5, .counts = {1, 3}, .slots = {2, 0}, .commits = {1, 3}});
  (void)run(GetParam(), 4, alone, in, {.first = 0, .counts = {1}, .slots = {2}});
  (void)run(GetParam(), 4, alone, in, {.first = 5, .counts = {1}, .slots = {2}});
  (void)run(GetParam(), 4, alone, in, {.first = 2, .counts = {3}, .slots = {0}});
  (void)run(GetParam(), 4, alone, in, {.first = 6, .counts = {3}, .slots = {0}});
  expect_same_states(batch, alone);
}

}  // namespace
}  // namespace foretoken::cpu
