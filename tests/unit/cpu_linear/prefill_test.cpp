// The BF16 prefill against float64 on rounded activations: ragged sizes, the same bits on any cut, and who takes the call
// instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backends/cpu/cpu_provider.h"
#include "backends/cpu/onednn.h"
#include "backends/ops.h"
#include "core/error.h"
#include "core/ops/quantize.h"
#include "tests/unit/cpu_linear/kernels.h"

namespace foretoken::cpu {
namespace {

struct Sizes {
  int64_t rows, k, n;
};

class CpuPrefill : public testing::Test {
 protected:
  void SetUp() override {
    open(2);
    const LinearWeight any{
        .weight = upload(std::vector<uint16_t>(1024), DType::kBF16, {32, 32}), .scale = {}, .global_scale = {}};
    const Tensor x = upload(std::vector<float>(1024), DType::kF32, {32, 32});
    const Linear op{.x = x, .w = any, .out = x, .workspace = {}, .precision = LinearPrecision::kBF16};
    if (backend_->ops().choose("linear", &op).name != "onednn")
      GTEST_SKIP() << "no BF16 matrix hardware: " << onednn_bf16().reason();
  }

  void open(int num_threads) {
    buffers_.clear();
    stream_.reset();
    backend_ = make_cpu_provider()->open(0, {.num_threads = num_threads});
    stream_ = backend_->create_stream();
  }

  template <class T>
  Tensor upload(const std::vector<T>& values, DType dtype, const Shape& shape) {
    buffers_.push_back(backend_->allocate(values.size() * sizeof(T)));
    stream_->upload(std::as_bytes(std::span(values)), buffers_.back().view());
    return {buffers_.back().view(), dtype, shape};
  }

  Tensor allocate(size_t bytes) {
    buffers_.push_back(backend_->allocate(bytes));
    return {buffers_.back().view(), DType::kU8, Shape{static_cast<int64_t>(bytes)}};
  }

  template <class Op>
  std::vector<float> run(Op op) {
    op.workspace = allocate(ops::workspace_bytes(backend_->ops(), op));
    stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, op); });
    std::vector<float> result(static_cast<size_t>(op.out.dim(0) * op.out.dim(1)));
    stream_->download(op.out.view(), std::as_writable_bytes(std::span(result)));
    return result;
  }

  std::unique_ptr<GpuBackend> backend_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> buffers_;
};

struct Data {
  std::vector<float> x, gate, up;
  std::vector<uint16_t> gate_bits, up_bits;

  explicit Data(const Sizes& s)
      : x(random_floats(static_cast<size_t>(s.rows * s.k), 21)),
        gate(random_floats(static_cast<size_t>(s.n * s.k), 22, 0.05F)),
        up(random_floats(static_cast<size_t>(s.n * s.k), 23, 0.05F)),
        gate_bits(round_to_bf16(gate)),
        up_bits(round_to_bf16(up)) {}
};

double dot(const float* a, const float* b, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST_F(CpuPrefill, AgreesWithFloat64AndDoesNotDependOnThreads) {
  for (const Sizes& s : {Sizes{24, 64, 32}, Sizes{65, 192, 200}, Sizes{100, 1003, 77}, Sizes{256, 96, 1153}}) {
    Data data(s);
    std::vector<float> linear, silu;
    for (const int threads : {1, 2, 3}) {
      open(threads);
      const Tensor x = upload(data.x, DType::kF32, {s.rows, s.k});
      const LinearWeight gate{.weight = upload(data.gate_bits, DType::kBF16, {s.n, s.k}), .scale = {}, .global_scale = {}};
      const LinearWeight up{.weight = upload(data.up_bits, DType::kBF16, {s.n, s.k}), .scale = {}, .global_scale = {}};
      const Tensor out = upload(std::vector<float>(static_cast<size_t>(s.rows * s.n), NAN), DType::kF32, {s.rows, s.n});
      const auto one = run(Linear{.x = x, .w = gate, .out = out, .workspace = {}, .precision = LinearPrecision::kBF16});
      const auto two =
          run(LinearSiluMul{.x = x, .gate = gate, .up = up, .out = out, .workspace = {}, .precision = LinearPrecision::kBF16});
      if (threads == 1) {
        linear = one;
        silu = two;
      }
      EXPECT_EQ(one, linear);
      EXPECT_EQ(two, silu);
    }
    std::vector<float> rounded = data.x;
    round_to_bf16(rounded);
    for (int64_t row = 0; row < s.rows; ++row) {
      double largest = 0.0, largest_silu = 0.0, error = 0.0, error_silu = 0.0;
      for (int64_t n = 0; n < s.n; ++n) {
        const auto at = static_cast<size_t>(row * s.n + n);
        const double expected = dot(rounded.data() + row * s.k, data.gate.data() + n * s.k, s.k);
        const double expected_silu =
            expected / (1.0 + std::exp(-expected)) * dot(rounded.data() + row * s.k, data.up.data() + n * s.k, s.k);
        largest = std::max(largest, std::abs(expected));
        largest_silu = std::max(largest_silu, std::abs(expected_silu));
        error = std::max(error, std::abs(static_cast<double>(linear[at]) - expected));
        error_silu = std::max(error_silu, std::abs(static_cast<double>(silu[at]) - expected_silu));
      }
      EXPECT_LT(error, 1e-5 * largest);
      EXPECT_LT(error_silu, 2e-5 * largest_silu);
    }
  }
}

/// max |a - b| / max |b|
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0.0, largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return difference / largest;
}

TEST_F(CpuPrefill, TakesQuantisedWeights) {
  for (const Sizes& s : {Sizes{24, 64, 100}, Sizes{70, 2048, 1300}}) {  // the latter in three panels, the last one ragged
    const Data data(s);
    const Tensor x = upload(data.x, DType::kF32, {s.rows, s.k});
    const Tensor values = upload(data.gate, DType::kF32, {s.n, s.k});
    const Tensor out = upload(std::vector<float>(static_cast<size_t>(s.rows * s.n), NAN), DType::kF32, {s.rows, s.n});
    const Tensor amax = upload(std::vector<float>(1), DType::kF32, {1});
    const auto run_op = [&](const auto& op) { stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, op); }); };
    const auto codes = [&](DType dtype, int64_t columns) {
      buffers_.push_back(backend_->allocate(static_cast<size_t>(s.n * columns)));
      return Tensor(buffers_.back().view(), dtype, {s.n, columns});
    };
    LinearWeight row{.weight = codes(DType::kE4M3, s.k),
                     .scale = upload(std::vector<float>(static_cast<size_t>(s.n)), DType::kF32, {s.n}),
                     .global_scale = {},
                     .format = WeightFormat::kFp8Row};
    run_op(QuantizeFp8Row{.x = values, .codes = row.weight, .scale = row.scale});
    const Shape scales = scale_shape(WeightFormat::kFp8Block, {s.n, s.k});
    LinearWeight block{.weight = codes(DType::kE4M3, s.k),
                       .scale = upload(std::vector<float>(static_cast<size_t>(scales.num_elements())), DType::kF32, scales),
                       .global_scale = {},
                       .format = WeightFormat::kFp8Block};
    run_op(QuantizeFp8Block{.x = values, .codes = block.weight, .scale = block.scale});
    LinearWeight nvfp4{.weight = codes(DType::kE2M1, s.k),
                       .scale = codes(DType::kE4M3, s.k / kNvfp4Group),
                       .global_scale = upload(std::vector<float>(1), DType::kF32, {1}),
                       .format = WeightFormat::kNvfp4};
    run_op(AbsMax{
        .x = values, .amax = amax, .workspace = allocate(ops::workspace_bytes(backend_->ops(), AbsMax{values, amax, {}}))});
    run_op(QuantizeNvfp4{
        .x = values, .amax = amax, .codes = nvfp4.weight, .scale = nvfp4.scale, .global_scale = nvfp4.global_scale});
    std::vector<float> rounded = data.x;
    round_to_bf16(rounded);
    const Tensor exact_x = upload(rounded, DType::kF32, {s.rows, s.k});
    for (const LinearWeight& w : {row, block, nvfp4}) {
      const double bound = w.format == WeightFormat::kFp8Block ? 5e-3 : 1e-5;  // the other codes are exact in BF16
      Linear linear{.x = x, .w = w, .out = out, .workspace = {}, .precision = LinearPrecision::kBF16};
      LinearSiluMul silu{.x = x, .gate = w, .up = w, .out = out, .workspace = {}, .precision = LinearPrecision::kBF16};
      EXPECT_EQ(backend_->ops().choose("linear", &linear).name, "onednn");
      const std::vector<float> got = run(linear), got_silu = run(silu);
      linear.x = silu.x = exact_x;
      linear.precision = silu.precision = LinearPrecision::kExact;
      EXPECT_LT(largest_difference(got, run(linear)), bound) << to_string(w.format);
      EXPECT_LT(largest_difference(got_silu, run(silu)), 2 * bound) << to_string(w.format);
    }
  }
}

TEST_F(CpuPrefill, ExactKernelsTakeWhatItRefuses) {
  const Tensor x = upload(std::vector<float>(64 * 64), DType::kF32, {64, 64});
  const LinearWeight bf16{
      .weight = upload(std::vector<uint16_t>(64 * 64), DType::kBF16, {64, 64}), .scale = {}, .global_scale = {}};
  const LinearWeight f32{.weight = x, .scale = {}, .global_scale = {}, .format = WeightFormat::kF32};
  const auto chosen = [&](const Linear& op) { return backend_->ops().choose("linear", &op).name; };
  Linear op{.x = x, .w = bf16, .out = x, .workspace = {}, .precision = LinearPrecision::kBF16};
  EXPECT_EQ(chosen(op), "onednn");
  op.precision = LinearPrecision::kExact;
  EXPECT_EQ(chosen(op), "exact");
  op.precision = LinearPrecision::kBF16;
  op.w = f32;
  EXPECT_EQ(chosen(op), "exact");
  op.w = bf16;
  op.x = x.rows(0, 23);
  op.out = x.rows(0, 23);
  EXPECT_EQ(chosen(op), "exact");
}

TEST_F(CpuPrefill, SaysWhenTheWorkspaceIsTooSmall) {
  const Tensor x = upload(std::vector<float>(64 * 64), DType::kF32, {64, 64});
  const LinearWeight bf16{
      .weight = upload(std::vector<uint16_t>(64 * 64), DType::kBF16, {64, 64}), .scale = {}, .global_scale = {}};
  const Linear op{.x = x, .w = bf16, .out = x, .workspace = allocate(64), .precision = LinearPrecision::kBF16};
  EXPECT_THROW(stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, op); }), Error);
}

}  // namespace
}  // namespace foretoken::cpu
