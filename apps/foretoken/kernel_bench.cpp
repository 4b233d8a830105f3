#include "apps/foretoken/kernel_bench.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "backends/ops.h"
#include "core/error.h"
#include "models/weight_converter.h"

namespace foretoken::cli {
namespace {

constexpr uint64_t kSeed = 20260301;
constexpr int kWeightExponent = -11;  // |w| < 2^-4
constexpr int kInputExponent = -7;    // |x| < 1

/// The value of sorted `samples` at `fraction` of the way through.
double percentile(const std::vector<double>& samples, double fraction) {
  return samples[static_cast<size_t>(std::lround(fraction * static_cast<double>(samples.size() - 1)))];
}

}  // namespace

std::string KernelShape::to_string() const {
  const std::string matrix = std::to_string(rows_out) + "x" + std::to_string(columns);
  return op != KernelOp::kMoe ? matrix
                              : std::to_string(num_experts) + "x" + matrix + ", top " + std::to_string(num_experts_per_tok);
}

/// Activations and the calls over them, in the order in which a Program makes them.
struct KernelBench::Work {
  GpuBackend& backend;
  Stream& stream;
  DType activations = DType::kF32;
  std::vector<Buffer> memory{};
  std::vector<std::function<void(CommandList&)>> calls{};
  uint64_t bytes = 0;  // weights that one call reads

  Tensor allocate(DType dtype, const Shape& shape) {
    memory.push_back(backend.allocate(dtype_bytes(dtype, static_cast<size_t>(shape.num_elements()))));
    return memory.back().tensor(dtype, shape);
  }
  Tensor input(const Shape& shape) {
    const Tensor x = allocate(activations, shape);
    stream.run([&](CommandList& cmd) {
      ops::dispatch(cmd, RandomFill{.out = x.reshape({shape.num_elements()}), .seed = kSeed, .exponent = kInputExponent});
    });
    return x;
  }
  template <class T>
  Tensor upload(DType dtype, const Shape& shape, const std::vector<T>& values) {
    const Tensor tensor = allocate(dtype, shape);
    stream.upload(std::as_bytes(std::span(values)), tensor.view());
    return tensor;
  }
  template <class Op>
  void add_workspace(Op& op) {
    const size_t bytes_needed = ops::workspace_bytes(backend.ops(), op);
    if (bytes_needed > 0) op.workspace = allocate(DType::kU8, {static_cast<int64_t>(bytes_needed)});
  }

  void add_linear(const std::vector<WeightPair>& weights, int64_t rows);
  void add_linear_argmax(const std::vector<WeightPair>& weights, int64_t rows);
  void add_linear_silu_mul(const std::vector<WeightPair>& weights, int64_t rows);
  void add_moe(const std::vector<WeightPair>& weights, const KernelShape& shape, int64_t rows);
};

void KernelBench::Work::add_linear(const std::vector<WeightPair>& weights, int64_t rows) {
  const LinearWeight& w = weights.front().first;
  Linear op{.x = input({rows, w.in_features()}), .w = w, .out = allocate(DType::kF32, {rows, w.out_features()}), .workspace = {}};
  ops::require(backend, "bench kernels", op);
  add_workspace(op);
  bytes = w.bytes();
  for (const WeightPair& pair : weights) {
    op.w = pair.first;
    calls.emplace_back([op](CommandList& cmd) { ops::dispatch(cmd, op); });
  }
}

void KernelBench::Work::add_linear_argmax(const std::vector<WeightPair>& weights, int64_t rows) {
  const LinearWeight& w = weights.front().first;
  LinearArgmax op{
      .x = input({rows, w.in_features()}), .w = w, .token_ids = allocate(DType::kI32, {rows}), .logprobs = {}, .workspace = {}};
  ops::require(backend, "bench kernels", op);
  add_workspace(op);
  bytes = w.bytes();
  for (const WeightPair& pair : weights) {
    op.w = pair.first;
    calls.emplace_back([op](CommandList& cmd) { ops::dispatch(cmd, op); });
  }
}

void KernelBench::Work::add_linear_silu_mul(const std::vector<WeightPair>& weights, int64_t rows) {
  const WeightPair& w = weights.front();
  LinearSiluMul op{.x = input({rows, w.first.in_features()}),
                   .gate = w.first,
                   .up = w.second,
                   .out = allocate(activations, {rows, w.first.out_features()}),
                   .workspace = {}};
  ops::require(backend, "bench kernels", op);
  add_workspace(op);
  bytes = w.first.bytes() + w.second.bytes();
  for (const WeightPair& pair : weights) {
    op.gate = pair.first;
    op.up = pair.second;
    calls.emplace_back([op](CommandList& cmd) { ops::dispatch(cmd, op); });
  }
}

/// Calls pick experts in turn, so that those of one call are distinct as far as there are enough.
void KernelBench::Work::add_moe(const std::vector<WeightPair>& weights, const KernelShape& shape, int64_t rows) {
  const int64_t experts = shape.num_experts;
  const int64_t slots = shape.num_experts_per_tok;
  const int64_t pairs = rows * slots;
  MoeExpertsUp up{.x = input({rows, shape.columns}),
                  .gate_up = weights.front().first,
                  .expert_offsets = {},
                  .expert_pairs = {},
                  .out = allocate(activations, {rows, slots, shape.rows_out})};
  MoeExpertsDown down{.act = up.out,
                      .down = weights.front().second,
                      .topk_ids = {},
                      .topk_weights = {},
                      .expert_offsets = {},
                      .expert_pairs = {},
                      .shared = {},
                      .shared_gate = {},
                      .out = allocate(DType::kF32, {rows, shape.columns}),
                      .workspace = {}};
  down.topk_weights =
      upload(DType::kF32, {rows, slots}, std::vector<float>(static_cast<size_t>(pairs), 1.0F / static_cast<float>(slots)));
  const int64_t active = std::min(pairs, experts);
  bytes = (up.gate_up.bytes() + down.down.bytes()) / static_cast<uint64_t>(experts) * static_cast<uint64_t>(active);

  for (int64_t first = 0; first < experts; first += active) {
    std::vector<int32_t> ids(static_cast<size_t>(pairs));
    for (int64_t pair = 0; pair < pairs; ++pair) {
      ids[static_cast<size_t>(pair)] = static_cast<int32_t>((first + pair) % experts);
    }
    std::vector<int32_t> order(ids.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&ids](int32_t pair) { return ids[static_cast<size_t>(pair)]; });
    std::vector<int32_t> offsets(static_cast<size_t>(experts) + 1);
    for (const int32_t id : ids) ++offsets[static_cast<size_t>(id) + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    up.expert_offsets = down.expert_offsets = upload(DType::kI32, {experts + 1}, offsets);
    up.expert_pairs = down.expert_pairs = upload(DType::kI32, {pairs}, order);
    down.topk_ids = upload(DType::kI32, {rows, slots}, ids);
    if (first == 0) {
      ops::require(backend, "bench kernels", up);
      ops::require(backend, "bench kernels", down);
      add_workspace(down);
    }
    for (const WeightPair& pair : weights) {
      up.gate_up = pair.first;
      down.down = pair.second;
      calls.emplace_back([up, down](CommandList& cmd) {
        ops::dispatch(cmd, up);
        ops::dispatch(cmd, down);
      });
    }
  }
}

KernelBench::KernelBench(GpuBackend& backend, Stream& stream, const KernelShape& shape, WeightFormat format,
                         const KernelBenchOptions& options)
    : backend_(backend), stream_(stream), shape_(shape), format_(format), options_(options) {
  make_weights();
}

KernelBench::~KernelBench() = default;

LinearWeight KernelBench::make_weight(const Shape& shape, int64_t row_groups) {
  const auto elements = static_cast<size_t>(shape.num_elements());
  Buffer memory = backend_.allocate(dtype_bytes(DType::kBF16, elements));
  const Tensor weight = memory.tensor(DType::kBF16, shape);
  stream_.run([&](CommandList& cmd) {
    ops::dispatch(cmd, RandomFill{.out = weight.reshape({shape.num_elements()}),
                                  .seed = kSeed,
                                  .tensor_id = ++next_tensor_id_,
                                  .exponent = kWeightExponent});
  });
  const LinearWeight source{.weight = weight, .scale = {}, .global_scale = {}, .format = WeightFormat::kBF16};
  if (format_ == WeightFormat::kBF16) {
    memory_.push_back(std::move(memory));
    return source;
  }
  ConvertedWeight converted = convert_weight(backend_, stream_, source, format_, row_groups);
  memory_.push_back(std::move(converted.memory));
  return converted.weight;
}

void KernelBench::make_weights() {
  const Shape matrix{shape_.rows_out, shape_.columns};
  WeightPair original;
  switch (shape_.op) {
    case KernelOp::kLinear:
    case KernelOp::kLinearArgmax: original = {.first = make_weight(matrix, 1), .second = {}}; break;
    case KernelOp::kLinearSiluMul: original = {.first = make_weight(matrix, 1), .second = make_weight(matrix, 1)}; break;
    case KernelOp::kMoe:
      original = {.first = make_weight({shape_.num_experts, 2 * shape_.rows_out, shape_.columns}, 2),
                  .second = make_weight({shape_.num_experts, shape_.columns, shape_.rows_out}, 1)};
      break;
  }
  copy_weights(original);
}

void KernelBench::copy_weights(const WeightPair& original) {
  const auto copy_part = [this](Tensor& part) {
    if (part.is_absent()) return;
    memory_.push_back(backend_.allocate(part.view().bytes));
    stream_.copy(part.view(), memory_.back().view());
    part = memory_.back().tensor(part.dtype(), part.shape());
  };
  weights_.push_back(original);
  const uint64_t bytes = original.first.bytes() + original.second.bytes();
  while (weights_.size() * bytes < options_.min_bytes) {
    WeightPair copy = original;
    for (LinearWeight* w : {&copy.first, &copy.second}) {
      for (Tensor* part : {&w->weight, &w->scale, &w->global_scale}) copy_part(*part);
    }
    weights_.push_back(copy);
  }
  stream_.synchronize();
}

std::unique_ptr<KernelBench::Work> KernelBench::make_work(int64_t rows) const {
  auto work = std::make_unique<Work>(backend_, stream_, options_.activations);
  switch (shape_.op) {
    case KernelOp::kLinear: work->add_linear(weights_, rows); break;
    case KernelOp::kLinearArgmax: work->add_linear_argmax(weights_, rows); break;
    case KernelOp::kLinearSiluMul: work->add_linear_silu_mul(weights_, rows); break;
    case KernelOp::kMoe: work->add_moe(weights_, shape_, rows); break;
  }
  return work;
}

KernelTiming KernelBench::measure(int64_t rows) {
  KernelTiming timing{.rows = rows, .unavailable = {}};
  std::unique_ptr<Work> work;
  try {
    work = make_work(rows);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    timing.unavailable = error.what();
    return timing;
  }
  const Program program = backend_.record("bench kernels", [&calls = work->calls](CommandList& cmd) {
    for (const auto& call : calls) call(cmd);
  });
  const auto start = backend_.create_event();
  const auto stop = backend_.create_event();
  std::vector<double> samples;
  stream_.run(program);  // warm up
  for (int64_t sample = 0; sample < options_.samples; ++sample) {
    stream_.record(*start);
    stream_.run(program);
    stream_.record(*stop);
    stop->synchronize();
    samples.push_back(stop->elapsed_us(*start) / static_cast<double>(work->calls.size()));
  }
  std::ranges::sort(samples);
  timing.bytes = work->bytes;
  timing.p10_us = percentile(samples, 0.1);
  timing.median_us = percentile(samples, 0.5);
  timing.p90_us = percentile(samples, 0.9);
  return timing;
}

}  // namespace foretoken::cli
