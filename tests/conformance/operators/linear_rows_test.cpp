// A row of x gives the same bits whatever rows are with it: every exact implementation of linear and linear_silu_mul.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/ops.h"
#include "core/ops/linear.h"
#include "core/ops/linear_group.h"
#include "core/ops/random_fill.h"
#include "tests/conformance/operators/device_operands.h"

namespace foretoken {
namespace {

constexpr int64_t kMaxWeights = 200'000;  // cases with larger ones would make the test slow

const LinearWeight& weight_of(const Linear& op) { return op.w; }
const LinearWeight& weight_of(const LinearSiluMul& op) { return op.gate; }

/// A case with contents, on a device.
template <class Op>
class RowsOnDevice {
 public:
  RowsOnDevice(GpuBackend& backend, Stream& stream, const OpCase<Op>& one)
      : backend_(backend), stream_(stream), memory_(backend) {
    op_ = make_on_device(stream, memory_, kSeed, one.make);
  }

  [[nodiscard]] const Op& op() const { return op_; }

  /// The results of rows [first, first + count), computed together.
  std::vector<ByteImage> run(const OpImplementation& implementation, int64_t first, int64_t count) {
    Op op = op_;
    op.x = op_.x.rows(first, count);
    op.out = op_.out.rows(first, count);
    const size_t bytes = implementation.workspace_bytes ? implementation.workspace_bytes(&op) : 0;
    const Buffer scratch = allocate_workspace(backend_, bytes, op.workspace);
    stream_.run([&](CommandList& cmd) { implementation.launch(cmd, &op); });
    std::vector<ByteImage> rows;
    for (int64_t row = 0; row < count; ++row) {
      const BufferView view = op.out.rows(row, 1).view();
      rows.emplace_back(view.bytes);
      stream_.download(view, rows.back());
      stream_.upload(ByteImage(view.bytes, std::byte{0xff}), view);
    }
    return rows;
  }

 private:
  static constexpr uint64_t kSeed = 11;

  GpuBackend& backend_;
  Stream& stream_;
  OperandSet memory_;
  Op op_;
};

/// All rows together against the first 1, 2, 3, ... rows, and against the last row alone.
template <class Op>
size_t expect_rows_alike(GpuBackend& backend) {
  const auto stream = backend.create_stream();
  size_t compared = 0;
  for (const OpCase<Op>& one : Op::cases()) {
    RowsOnDevice<Op> on_device(backend, *stream, one);
    const Op& op = on_device.op();
    const int64_t rows = op.x.dim(0);
    if (op.precision != LinearPrecision::kExact || weight_of(op).weight.shape().num_elements() > kMaxWeights) continue;
    for (const OpImplementation& implementation : backend.ops().find(Op::schema().name())) {
      if (implementation.accepts && !implementation.accepts(&op)) continue;
      const std::vector<ByteImage> all = on_device.run(implementation, 0, rows);
      for (int64_t count = 1; count < rows; ++count) {
        const std::vector<ByteImage> some = on_device.run(implementation, 0, count);
        EXPECT_TRUE(std::ranges::equal(some, std::span(all).first(some.size())))
            << one.name << ", " << implementation.name << ", " << count << " rows";
      }
      EXPECT_EQ(on_device.run(implementation, rows - 1, 1).front(), all.back()) << one.name << ", " << implementation.name;
      ++compared;
    }
  }
  return compared;
}

void expect_rows_alike_in_all(GpuBackend& backend) {
  EXPECT_GT(expect_rows_alike<Linear>(backend), 30U);
  EXPECT_GT(expect_rows_alike<LinearSiluMul>(backend), 30U);
}

TEST(LinearRows, GiveTheSameBitsInAnyCompanyOnTheCpu) {
  const auto backend = BackendRegistry::instance().open("cpu", {.num_threads = 2});
  expect_rows_alike_in_all(*backend);
}

TEST(LinearRows, GiveTheSameBitsInAnyCompanyOnTheSelectedDevice) {
  const auto backend = selected_device();
  if (backend == nullptr) GTEST_SKIP() << "FORETOKEN_TEST_BACKEND selects no device";
  expect_rows_alike_in_all(*backend);
}

/// A tensor of random numbers below 2^exponent.
Tensor random_tensor(GpuBackend& backend, Stream& stream, std::vector<Buffer>& memory, const Shape& shape, int exponent) {
  const auto elements = static_cast<size_t>(shape.num_elements());
  memory.push_back(backend.allocate(dtype_bytes(DType::kBF16, elements)));
  const Tensor tensor = memory.back().tensor(DType::kBF16, shape);
  stream.run([&](CommandList& cmd) {
    ops::dispatch(
        cmd,
        RandomFill{.out = tensor.reshape({shape.num_elements()}), .seed = 3, .tensor_id = memory.size(), .exponent = exponent});
  });
  return tensor;
}

/// Weights beyond the sizes of the cases: devices have other kernels for those.
TEST(LinearRows, GiveTheBitsOfLinearInAGroupOfLargeWeightsOnTheSelectedDevice) {
  const auto backend = selected_device();
  if (backend == nullptr) GTEST_SKIP() << "FORETOKEN_TEST_BACKEND selects no device";
  const auto stream = backend->create_stream();
  std::vector<Buffer> memory;
  LinearGroup group;
  constexpr int64_t kRows = 11;
  constexpr int64_t kWidth = 1152;
  group.x = random_tensor(*backend, *stream, memory, {kRows, kWidth}, -7);
  const std::array<int64_t, 3> out_features{5003, 4096, 8191};
  for (size_t i = 0; i < out_features.size(); ++i) {
    group.w[i].weight = random_tensor(*backend, *stream, memory, {out_features[i], kWidth}, -11);
    memory.push_back(backend->allocate(dtype_bytes(DType::kF32, static_cast<size_t>(kRows * out_features[i]))));
    group.out[i] = memory.back().tensor(DType::kF32, {kRows, out_features[i]});
  }
  const auto results = [&] {
    std::vector<ByteImage> images;
    for (size_t i = 0; i < out_features.size(); ++i) {
      images.emplace_back(group.out[i].view().bytes);
      stream->download(group.out[i].view(), images.back());
      stream->upload(ByteImage(images.back().size(), std::byte{0xff}), group.out[i].view());
    }
    return images;
  };
  for (size_t i = 0; i < out_features.size(); ++i) {
    const Linear one = group.projection(i);
    ASSERT_EQ(ops::workspace_bytes(backend->ops(), one), 0U);
    stream->run([&](CommandList& cmd) { ops::dispatch(cmd, one); });
  }
  const std::vector<ByteImage> singly = results();
  for (const OpImplementation& implementation : backend->ops().find(LinearGroup::schema().name())) {
    if (implementation.accepts && !implementation.accepts(&group)) continue;
    stream->run([&](CommandList& cmd) { implementation.launch(cmd, &group); });
    EXPECT_EQ(results(), singly) << implementation.name;
  }
}

}  // namespace
}  // namespace foretoken
