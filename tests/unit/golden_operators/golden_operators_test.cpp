// The references and the CPU's kernels against values computed by an independent float64 implementation.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "tests/support/golden.h"
#include "tests/unit/golden_operators/executor.h"

namespace foretoken {
namespace {

constexpr double kTolerance = 1e-5;
constexpr float kEps = 1e-6F;

/// Largest max |a-b| / max |b| over rows of `width` elements.
double relative_error(const std::vector<float>& got, const std::vector<float>& expected, int64_t width) {
  EXPECT_EQ(got.size(), expected.size());
  double worst = 0.0;
  const auto step = static_cast<size_t>(width);
  for (size_t first = 0; first < expected.size(); first += step) {
    double error = 0.0;
    double scale = 0.0;
    for (size_t i = first; i < first + step; ++i) {
      const double difference = std::fabs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
      error = std::isfinite(difference) ? std::fmax(error, difference) : INFINITY;
      scale = std::fmax(scale, std::fabs(static_cast<double>(expected[i])));
    }
    worst = std::fmax(worst, error / scale);
  }
  return worst;
}

class GoldenOperator : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      executor_ = std::make_unique<Executor>(GetParam());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }

  /// A golden array as a tensor; its own shape unless another one is given.
  Tensor load(const std::string& name) { return executor_->make(golden_.shape(name), golden_.f32(name)); }
  Tensor load(const std::string& name, const Shape& shape) { return executor_->make(shape, golden_.f32(name)); }
  Tensor output(const Shape& shape) { return executor_->make(DType::kF32, shape); }

  void expect_close(const Tensor& got, const std::string& name, double tolerance = kTolerance) {
    const Shape shape = golden_.shape(name);
    EXPECT_LE(relative_error(executor_->read(got), golden_.f32(name), shape[shape.rank() - 1]), tolerance) << name;
  }

  test::Golden golden_{"operators.safetensors"};
  std::unique_ptr<Executor> executor_;
};

TEST_P(GoldenOperator, RmsNorm) {
  RmsNorm op;
  op.x = load("rms_norm.x");
  op.weight = load("rms_norm.weight");
  op.out = output(op.x.shape());
  op.eps = kEps;
  executor_->run(op);
  expect_close(op.out, "rms_norm.out");
}

TEST_P(GoldenOperator, Rope) {
  RopeTable table;
  table.positions = executor_->integers(golden_.i32("rope.positions"));
  table.cos_sin = output({table.positions.dim(0), 64});
  table.theta = 1e7;
  executor_->run(table);
  struct Rope op;
  op.x = load("rope.x");
  op.cos_sin = table.cos_sin;
  executor_->run(op);
  expect_close(op.x, "rope.out");
}

TEST_P(GoldenOperator, GatedAttention) {
  // Each row is a sequence of its own; all see the same positions, in blocks of 16 in another order.
  constexpr int64_t kBlockSize = 16;
  const std::vector<int32_t> block_order = {4, 0, 2};
  const Shape shape = golden_.shape("gated_attention.k");
  const Shape cache{5, kBlockSize, shape[1], shape[2]};
  const auto paged = [&](const std::string& name) {
    const std::vector<float> rows = golden_.f32(name);
    std::vector<float> blocks(static_cast<size_t>(cache.num_elements()), std::nanf(""));
    const auto width = shape[1] * shape[2];
    for (int64_t position = 0; position < shape[0]; ++position) {
      const int64_t slot = block_order[static_cast<size_t>(position / kBlockSize)] * kBlockSize + position % kBlockSize;
      std::copy_n(rows.begin() + position * width, width, blocks.begin() + slot * width);
    }
    return executor_->make(cache, blocks);
  };
  const Shape q_shape = golden_.shape("gated_attention.q");
  const std::vector<float> gate = golden_.f32("gated_attention.gate");
  std::vector<float> q_gate;
  for (int64_t head = 0; head < q_shape[0] * q_shape[1]; ++head) {
    q_gate.insert(q_gate.end(), static_cast<size_t>(q_shape[2]), std::nanf(""));  // the query half is not read
    q_gate.insert(q_gate.end(), gate.begin() + head * q_shape[2], gate.begin() + (head + 1) * q_shape[2]);
  }
  struct GatedAttention op;
  op.q = load("gated_attention.q");
  op.q_gate = executor_->make({q_shape[0], q_shape[1], 2 * q_shape[2]}, q_gate);
  op.k_cache = paged("gated_attention.k");
  op.v_cache = paged("gated_attention.v");
  op.block_table = executor_->integers({4, 0, 2, -1, 4, 0, 2, -1, 4, 0, 2, -1}).reshape({3, 4});
  op.seq_lens = executor_->integers(golden_.i32("gated_attention.lengths"));
  op.query_start_loc = executor_->integers({0, 1, 2, 3});
  op.out = output(q_shape);
  op.scale = 1.0F / 16.0F;
  op.max_seq_len = shape[0];
  executor_->run(op);
  expect_close(op.out, "gated_attention.out");
}

TEST_P(GoldenOperator, CausalConv1dSilu) {
  const Shape shape = golden_.shape("causal_conv1d_silu.x");
  for (const std::vector<int32_t>& calls : {std::vector<int32_t>{9}, {1, 4, 2, 2}}) {
    const Tensor x = load("causal_conv1d_silu.x");
    const Tensor out = output(shape);
    struct CausalConv1dSilu op;
    op.weight = load("causal_conv1d_silu.weight");
    op.state_slots = executor_->integers({0});
    op.conv_state = load("causal_conv1d_silu.state_in", {1, shape[1], 3});
    int64_t done = 0;
    for (const int32_t rows : calls) {
      op.x = x.rows(done, rows);
      op.out = out.rows(done, rows);
      op.query_start_loc = executor_->integers({0, rows});
      executor_->run(op);
      done += rows;
    }
    expect_close(out, "causal_conv1d_silu.out");
    expect_close(op.conv_state, "causal_conv1d_silu.state_out", 0.0);
  }
}

class GoldenDeltaRule : public GoldenOperator {
 protected:
  static constexpr int64_t kTokens = 70;
  static constexpr int64_t kNumKeyHeads = 2;
  static constexpr int64_t kNumValueHeads = 4;
  static constexpr int64_t kDim = 128;
  static constexpr int64_t kMaxRecords = 8;

  void SetUp() override {
    GoldenOperator::SetUp();
    if (executor_ == nullptr) return;
    qkv_ = executor_->make({kTokens, (2 * kNumKeyHeads + kNumValueHeads) * kDim}, joined_channels());
    a_ = load("gated_delta_rule.a");
    b_ = load("gated_delta_rule.b");
    out_ = output({kTokens, kNumValueHeads, kDim});
    op_.A_log = load("gated_delta_rule.A_log");
    op_.dt_bias = load("gated_delta_rule.dt_bias");
    op_.state_slots = executor_->integers({0});
    op_.state = load("gated_delta_rule.state_in", {1, kNumValueHeads, kDim, kDim});
  }

  std::vector<float> joined_channels() {
    std::vector<float> joined;
    for (int64_t t = 0; t < kTokens; ++t) {
      for (const char* name : {"q", "k", "v"}) {
        const std::vector<float> part = golden_.f32(std::string("gated_delta_rule.") + name);
        const auto width = static_cast<int64_t>(part.size()) / kTokens;
        joined.insert(joined.end(), part.begin() + t * width, part.begin() + (t + 1) * width);
      }
    }
    return joined;
  }

  /// Rows begin .. begin + count, after the commit of `num_commit` recorded ones.
  void run_rows(int64_t begin, int64_t count, StateUpdate update, int32_t num_commit = 0) {
    op_.qkv = qkv_.rows(begin, count);
    op_.a = a_.rows(begin, count);
    op_.b = b_.rows(begin, count);
    op_.out = out_.rows(begin, count);
    op_.query_start_loc = executor_->integers({0, static_cast<int32_t>(count)});
    if (op_.key_record) op_.num_commit = executor_->integers({num_commit});
    op_.update = update;
    executor_->run(op_);
  }

  void make_records() {
    op_.key_record = output({1, kMaxRecords, kNumValueHeads, kDim});
    op_.delta_record = output({1, kMaxRecords, kNumValueHeads, kDim});
    op_.decay_record = output({1, kMaxRecords, kNumValueHeads});
  }

  GatedDeltaRule op_;
  Tensor qkv_;
  Tensor a_;
  Tensor b_;
  Tensor out_;
};

TEST_P(GoldenDeltaRule, InOneCall) {
  run_rows(0, kTokens, StateUpdate::kInPlace);
  expect_close(out_, "gated_delta_rule.out");
  expect_close(op_.state, "gated_delta_rule.state_out");
}

TEST_P(GoldenDeltaRule, InSeveralCalls) {
  run_rows(0, 5, StateUpdate::kInPlace);
  expect_close(op_.state, "gated_delta_rule.state_after_5");
  run_rows(5, 1, StateUpdate::kInPlace);
  run_rows(6, 40, StateUpdate::kInPlace);
  run_rows(46, kTokens - 46, StateUpdate::kInPlace);
  expect_close(out_, "gated_delta_rule.out");
  expect_close(op_.state, "gated_delta_rule.state_out");
}

TEST_P(GoldenDeltaRule, RecordedAndCommitted) {
  make_records();
  run_rows(0, 8, StateUpdate::kRecord);
  expect_close(op_.state, "gated_delta_rule.state_in", 0.0);
  run_rows(5, kMaxRecords, StateUpdate::kRecord, 5);  // three rows of those before are rejected
  expect_close(op_.state, "gated_delta_rule.state_after_5");
  const int64_t last = kTokens - 1;
  int64_t begin = 5 + kMaxRecords;
  int64_t pending = kMaxRecords;
  for (; begin < last; begin += pending) {
    const int64_t count = std::min(kMaxRecords, last - begin);
    run_rows(begin, count, StateUpdate::kRecord, static_cast<int32_t>(pending));
    pending = count;
  }
  run_rows(last, 1, StateUpdate::kInPlace, static_cast<int32_t>(pending));
  expect_close(out_, "gated_delta_rule.out");
  expect_close(op_.state, "gated_delta_rule.state_out");
}

TEST_P(GoldenDeltaRule, GatedNormOfTheOutputs) {
  // Each row is a sequence of its own whose state is nothing. Its key and query are 1, so that its output is its value, x.
  const Shape shape = golden_.shape("rms_norm_gated.x");
  const int64_t rows = shape[0];
  const int64_t dim = shape[1];
  const std::vector<float> x = golden_.f32("rms_norm_gated.x");
  std::vector<float> qkv;
  std::vector<int32_t> starts = {0};
  std::vector<int32_t> slots;
  for (int64_t t = 0; t < rows; ++t) {
    qkv.insert(qkv.end(), 2, 1000.0F);  // so large that the 1e-6 under the root of their length changes nothing
    qkv.insert(qkv.end(), x.begin() + t * dim, x.begin() + (t + 1) * dim);
    starts.push_back(static_cast<int32_t>(t) + 1);
    slots.push_back(static_cast<int32_t>(t));
  }
  GatedDeltaRule op;
  op.qkv = executor_->make({rows, 2 + dim}, qkv);
  op.b = executor_->make({rows, 1}, std::vector<float>(static_cast<size_t>(rows), 50.0F));  // beta is 1
  op.a = executor_->make({rows, 1}, std::vector<float>(static_cast<size_t>(rows)));
  op.A_log = executor_->make({1}, std::vector<float>(1));
  op.dt_bias = executor_->make({1}, std::vector<float>(1));
  op.query_start_loc = executor_->integers(starts);
  op.state_slots = executor_->integers(slots);
  op.state = executor_->make({rows, 1, 1, dim}, std::vector<float>(static_cast<size_t>(rows * dim)));
  op.z = load("rms_norm_gated.gate", {rows, 1, dim});
  op.norm = load("rms_norm_gated.weight");
  op.out = output({rows, 1, dim});
  op.eps = kEps;
  executor_->run(op);
  expect_close(op.out, "rms_norm_gated.out");
}

class GoldenMoe : public GoldenOperator {
 protected:
  LinearWeight weight(const std::string& name) {
    return {.weight = load("moe." + name), .scale = {}, .global_scale = {}, .format = WeightFormat::kF32};
  }
  Tensor linear(const Tensor& x, const LinearWeight& w) {
    Linear op;
    op.x = x;
    op.w = w;
    op.out = output({x.dim(0), w.out_features()});
    executor_->run(op);
    return op.out;
  }
};

TEST_P(GoldenMoe, RouteExpertsAndSharedExpert) {
  const Tensor x = load("moe.x");
  const int64_t num_tokens = x.dim(0);
  const int64_t top_k = golden_.shape("moe.topk_ids")[1];
  const LinearWeight router = weight("router");
  const int64_t num_experts = router.out_features();
  MoeRoute route;
  route.logits = linear(x, router);
  route.topk_ids = executor_->make(DType::kI32, {num_tokens, top_k});
  route.topk_weights = output({num_tokens, top_k});
  route.expert_offsets = executor_->make(DType::kI32, {num_experts + 1});
  route.expert_pairs = executor_->make(DType::kI32, {num_tokens * top_k});
  executor_->run(route);
  const std::vector<float> ids = executor_->read(route.topk_ids);
  EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.end()), golden_.i32("moe.topk_ids"));
  expect_close(route.topk_weights, "moe.topk_weights");

  MoeExpertsUp up;
  up.x = x;
  up.gate_up = weight("gate_up");
  up.expert_offsets = route.expert_offsets;
  up.expert_pairs = route.expert_pairs;
  up.out = output({num_tokens, top_k, up.gate_up.out_features() / 2});
  executor_->run(up);

  LinearSiluMul shared;
  shared.x = x;
  shared.gate = weight("shared_gate");
  shared.up = weight("shared_up");
  shared.out = output({num_tokens, shared.gate.out_features()});
  executor_->run(shared);

  MoeExpertsDown down;
  down.act = up.out;
  down.down = weight("down");
  down.topk_ids = route.topk_ids;
  down.topk_weights = route.topk_weights;
  down.expert_offsets = route.expert_offsets;
  down.expert_pairs = route.expert_pairs;
  down.shared = linear(shared.out, weight("shared_down"));
  down.shared_gate = linear(x, weight("shared_expert_gate"));
  down.out = output(x.shape());
  executor_->run(down);
  expect_close(down.out, "moe.out");
}

constexpr const char* kKinds[] = {"reference", "scalar", "avx2", "avx512", "avx512_vnni"};

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenOperator, ::testing::ValuesIn(kKinds), [](const auto& param) { return param.param; });
INSTANTIATE_TEST_SUITE_P(Kinds, GoldenDeltaRule, ::testing::ValuesIn(kKinds), [](const auto& param) { return param.param; });
INSTANTIATE_TEST_SUITE_P(Kinds, GoldenMoe, ::testing::ValuesIn(kKinds), [](const auto& param) { return param.param; });

}  // namespace
}  // namespace foretoken
