// Linear layers on the CPU: bytes of weights read and operations done per second. Weights beyond the caches rotate among copies,
// so that each launch reads from DRAM; small ones stay in the cache, as those of a tiny model do.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_provider.h"
#include "backends/ops.h"

namespace foretoken {
namespace {

constexpr size_t kBeyondCaches = size_t{256} << 20;  // several times the last-level cache of a large server's socket share
constexpr size_t kSmall = size_t{1} << 20;

GpuBackend& backend() {
  static const std::unique_ptr<GpuBackend> cpu = cpu::make_cpu_provider()->open(0, BackendOptions{});
  return *cpu;
}

/// A buffer of random words that are small finite numbers as F32 or BF16 and finite ones as E4M3 codes.
Buffer random_buffer(Stream& stream, size_t bytes) {
  std::vector<uint32_t> words(bytes / sizeof(uint32_t) + 1);
  uint32_t state = 12345;
  for (uint32_t& word : words) {
    state = state * 1664525U + 1013904223U;
    word = 0x3c003c00U | (state & 0x803f803fU);
  }
  Buffer buffer = backend().allocate(bytes);
  stream.upload(std::as_bytes(std::span(words)).first(bytes), buffer.view());
  return buffer;
}

struct Layer {
  std::unique_ptr<Stream> stream = backend().create_stream();
  int64_t k, n, rows;
  WeightFormat format;
  size_t weight_bytes;  // with scales
  size_t copies;
  Buffer weights, x, out, workspace;

  Layer(const benchmark::State& state, size_t weights_per_launch, WeightFormat weight_format)
      : k(state.range(0)), n(state.range(1)), rows(state.range(2)), format(weight_format) {
    weight_bytes = code_bytes() + scale_bytes() + kAlignment;
    const size_t launch_bytes = weights_per_launch * weight_bytes;
    copies = launch_bytes <= kSmall ? 1 : (kBeyondCaches + launch_bytes - 1) / launch_bytes;
    weights = random_buffer(*stream, copies * launch_bytes);
    x = random_buffer(*stream, static_cast<size_t>(rows * k) * sizeof(float));
    out = backend().allocate(static_cast<size_t>(rows * n) * sizeof(float));
  }

  [[nodiscard]] Tensor input() const { return {x.view(), DType::kF32, Shape{rows, k}}; }
  [[nodiscard]] Tensor output() const { return {out.view(), DType::kF32, Shape{rows, n}}; }
  [[nodiscard]] LinearWeight weight(size_t index) const {
    const auto part = [&](size_t offset, DType dtype, const Shape& shape) {
      const size_t bytes = dtype_bytes(dtype, static_cast<size_t>(shape.num_elements()));
      return Tensor(weights.view().slice(index * weight_bytes + offset, bytes), dtype, shape);
    };
    LinearWeight w{.weight = part(0, code_dtype(format), {n, k}), .scale = {}, .global_scale = {}, .format = format};
    if (scale_bytes() > 0) w.scale = part(code_bytes(), scale_dtype(), scale_shape(format, {n, k}));
    if (format == WeightFormat::kNvfp4) w.global_scale = part(code_bytes() + scale_bytes(), DType::kF32, {1});
    return w;
  }
  /// Scratch for `op`.
  template <class Op>
  Tensor scratch(const Op& op) {
    const size_t bytes = std::max<size_t>(ops::workspace_bytes(backend().ops(), op), 4);
    workspace = backend().allocate(bytes);
    return {workspace.view(), DType::kU8, Shape{static_cast<int64_t>(bytes)}};
  }

  void measure(benchmark::State& state, size_t weights_per_launch, const RecordFn& fn) {
    const Program program = backend().record("bench", fn);
    stream->run(program);
    stream->synchronize();
    for (auto _ : state) {
      stream->run(program);
      stream->synchronize();
    }
    const double launches = static_cast<double>(state.iterations()) * static_cast<double>(copies);
    const double elements = launches * static_cast<double>(weights_per_launch) * static_cast<double>(k * n);
    state.counters["weights_bytes/s"] = benchmark::Counter(
        static_cast<double>(weights.view().bytes) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
    state.counters["flop/s"] = benchmark::Counter(2.0 * elements * static_cast<double>(rows), benchmark::Counter::kIsRate);
    state.counters["s/launch"] = benchmark::Counter(launches, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  }

 private:
  static constexpr size_t kAlignment = 64;

  static size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
  [[nodiscard]] DType scale_dtype() const { return format == WeightFormat::kNvfp4 ? DType::kE4M3 : DType::kBF16; }
  [[nodiscard]] size_t code_bytes() const { return aligned(dtype_bytes(code_dtype(format), static_cast<size_t>(n * k))); }
  [[nodiscard]] size_t scale_bytes() const {
    const Shape shape = scale_shape(format, {n, k});
    return shape.rank() == 0 ? 0 : aligned(dtype_bytes(scale_dtype(), static_cast<size_t>(shape.num_elements())));
  }
};

void linear(benchmark::State& state, WeightFormat format, LinearPrecision precision) {
  Layer layer(state, 1, format);
  Linear op{.x = layer.input(), .w = layer.weight(0), .out = layer.output(), .workspace = {}, .precision = precision};
  op.workspace = layer.scratch(op);
  layer.measure(state, 1, [&](CommandList& cmd) {
    for (size_t i = 0; i < layer.copies; ++i) {
      op.w = layer.weight(i);
      ops::dispatch(cmd, op);
    }
  });
}

void linear_silu_mul(benchmark::State& state, WeightFormat format, LinearPrecision precision) {
  Layer layer(state, 2, format);
  LinearSiluMul op{.x = layer.input(),
                   .gate = layer.weight(0),
                   .up = layer.weight(1),
                   .out = layer.output(),
                   .workspace = {},
                   .precision = precision};
  op.workspace = layer.scratch(op);
  layer.measure(state, 2, [&](CommandList& cmd) {
    for (size_t i = 0; i < layer.copies; ++i) {
      op.gate = layer.weight(2 * i);
      op.up = layer.weight(2 * i + 1);
      ops::dispatch(cmd, op);
    }
  });
}

void linear_argmax(benchmark::State& state, WeightFormat format) {
  Layer layer(state, 1, format);
  const Buffer ids = backend().allocate(static_cast<size_t>(layer.rows) * sizeof(int32_t));
  LinearArgmax op{.x = layer.input(),
                  .w = layer.weight(0),
                  .token_ids = Tensor(ids.view(), DType::kI32, Shape{layer.rows}),
                  .logprobs = {},
                  .workspace = {}};
  op.workspace = layer.scratch(op);
  layer.measure(state, 1, [&](CommandList& cmd) {
    for (size_t i = 0; i < layer.copies; ++i) {
      op.w = layer.weight(i);
      ops::dispatch(cmd, op);
    }
  });
}

/// What the memory gives when every core only reads: the bound for one row.
void read_memory(benchmark::State& state) {
  const size_t num_threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<uint64_t> data(2 * kBeyondCaches / sizeof(uint64_t), 1);
  std::vector<uint64_t> sums(num_threads * 16);
  for (auto _ : state) {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < num_threads; ++t) {
      threads.emplace_back([&, t] {
        const size_t begin = data.size() * t / num_threads;
        const size_t end = data.size() * (t + 1) / num_threads;
        sums[t * 16] = std::accumulate(data.data() + begin, data.data() + end, uint64_t{0});
      });
    }
    threads.clear();
    benchmark::DoNotOptimize(sums.data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(data.size() * sizeof(uint64_t)));
}

void shapes(benchmark::internal::Benchmark* bench, std::initializer_list<int64_t> row_counts) {
  constexpr std::array<std::array<int64_t, 2>, 7> kShapes{
      {{192, 512}, {512, 192}, {1024, 3584}, {3584, 1024}, {1024, 248320}, {5120, 17408}, {17408, 5120}}};
  bench->ArgNames({"K", "N", "T"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const auto& shape : kShapes) {
    for (const int64_t rows : row_counts) {
      if (rows * shape[0] * shape[1] < (int64_t{1} << 33)) bench->Args({shape[0], shape[1], rows});
    }
  }
}
void decode_and_prefill(benchmark::internal::Benchmark* bench) { shapes(bench, {1, 4, 16, 256}); }
void prefill(benchmark::internal::Benchmark* bench) { shapes(bench, {16, 64, 256}); }
void decode(benchmark::internal::Benchmark* bench) { shapes(bench, {1, 4, 16}); }

BENCHMARK(read_memory)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(linear, bf16, WeightFormat::kBF16, LinearPrecision::kExact)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, f32, WeightFormat::kF32, LinearPrecision::kExact)->Apply(decode);
BENCHMARK_CAPTURE(linear, fp8_row, WeightFormat::kFp8Row, LinearPrecision::kExact)->Apply(decode);
BENCHMARK_CAPTURE(linear, fp8_block, WeightFormat::kFp8Block, LinearPrecision::kExact)->Apply(decode);
BENCHMARK_CAPTURE(linear, nvfp4, WeightFormat::kNvfp4, LinearPrecision::kExact)->Apply(decode);
BENCHMARK_CAPTURE(linear, bf16_activations, WeightFormat::kBF16, LinearPrecision::kBF16)->Apply(prefill);
BENCHMARK_CAPTURE(linear_silu_mul, bf16, WeightFormat::kBF16, LinearPrecision::kExact)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear_silu_mul, fp8_block, WeightFormat::kFp8Block, LinearPrecision::kExact)->Apply(decode);
BENCHMARK_CAPTURE(linear_silu_mul, nvfp4, WeightFormat::kNvfp4, LinearPrecision::kExact)->Apply(decode);
BENCHMARK_CAPTURE(linear_silu_mul, bf16_activations, WeightFormat::kBF16, LinearPrecision::kBF16)->Apply(prefill);
BENCHMARK_CAPTURE(linear_argmax, bf16, WeightFormat::kBF16)->Apply(decode);
BENCHMARK_CAPTURE(linear_argmax, fp8_row, WeightFormat::kFp8Row)->Apply(decode);
BENCHMARK_CAPTURE(linear_argmax, nvfp4, WeightFormat::kNvfp4)->Apply(decode);

}  // namespace
}  // namespace foretoken
