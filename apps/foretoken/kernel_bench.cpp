#include "apps/foretoken/kernel_bench.h"

#include <utility>

#include "backends/ops.h"
#include "models/weight_converter.h"

namespace foretoken::cli {
namespace {

constexpr uint64_t kSeed = 20260302;
constexpr int kWeightExponent = -11;  // |w| < 2^-4

}  // namespace

KernelBench::KernelBench(GpuBackend& backend, Stream& stream, const KernelShape& shape, WeightFormat format,
                         KernelBenchOptions options)
    : backend_(backend), stream_(stream), shape_(shape), format_(format), options_(std::move(options)) {
  make_weights();
}

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
  KernelWeights original;
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

void KernelBench::copy_weights(const KernelWeights& original) {
  const auto copy_part = [this](Tensor& part) {
    if (part.is_absent()) return;
    memory_.push_back(backend_.allocate(part.view().bytes));
    stream_.copy(part.view(), memory_.back().view());
    part = memory_.back().tensor(part.dtype(), part.shape());
  };
  weights_.push_back(original);
  const uint64_t bytes = original.first.bytes() + original.second.bytes();
  while (weights_.size() * bytes < options_.min_bytes) {
    KernelWeights copy = original;
    for (LinearWeight* w : {&copy.first, &copy.second}) {
      for (Tensor* part : {&w->weight, &w->scale, &w->global_scale}) copy_part(*part);
    }
    weights_.push_back(copy);
  }
  stream_.synchronize();
}

std::vector<KernelTiming> KernelBench::measure(int64_t rows) {
  const KernelCalls calls(backend_, stream_, shape_, weights_, rows, options_.activations, options_.implementation);
  std::vector<KernelTiming> timings;
  for (const KernelVariant& variant : calls.variants()) {
    timings.push_back({.rows = rows,
                       .implementation = variant.name,
                       .rounds_activations = variant.rounds_activations,
                       .unavailable = {},
                       .bytes = calls.bytes(),
                       .us = time_calls(variant)});
  }
  if (timings.empty()) timings.push_back({.rows = rows, .implementation = {}, .unavailable = calls.reasons(), .us = {}});
  return timings;
}

Spread KernelBench::time_calls(const KernelVariant& variant) {
  const size_t passes = (options_.min_calls + variant.calls.size() - 1) / variant.calls.size();
  const Program program = backend_.record("bench kernels, " + variant.name, [&variant, passes](CommandList& cmd) {
    for (size_t pass = 0; pass < passes; ++pass) {
      for (const auto& call : variant.calls) call(cmd);
    }
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
    samples.push_back(stop->elapsed_us(*start) / static_cast<double>(passes * variant.calls.size()));
  }
  return spread_of(std::move(samples));
}

}  // namespace foretoken::cli
