#include "apps/foretoken/device_bandwidth.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "apps/foretoken/generation_report.h"
#include "backends/ops.h"
#include "core/ops/quantize.h"
#include "core/ops/random_fill.h"

namespace foretoken::cli {
namespace {

constexpr int kPasses = 12;
constexpr int kReads = 8;  // of one pass, so that what a replay costs by itself hardly counts
constexpr int64_t kRows = int64_t{1} << 17;
constexpr int64_t kColumns = int64_t{1} << 13;

/// Bytes per second of the fastest pass.
double read_bandwidth_of(GpuBackend& backend, Stream& stream, const OpImplementation& implementation, AbsMax op) {
  const size_t workspace_bytes = implementation.workspace_bytes ? implementation.workspace_bytes(&op) : 0;
  const Buffer workspace = backend.allocate(workspace_bytes);
  op.workspace = workspace.tensor(DType::kU8, {static_cast<int64_t>(workspace_bytes)});
  const Program program = backend.record("read", [&](CommandList& cmd) {
    for (int read = 0; read < kReads; ++read) implementation.launch(cmd, &op);
  });
  const auto start = backend.create_event();
  const auto stop = backend.create_event();
  double best_us = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) {
    stream.record(*start);
    stream.run(program);
    stream.record(*stop);
    stop->synchronize();
    best_us = std::min(best_us, stop->elapsed_us(*start));
  }
  return static_cast<double>(kReads) * static_cast<double>(op.x.bytes()) * 1e6 / best_us;
}

/// By the fastest implementation of abs_max; the method names each with its figure.
ReadBandwidth operator_read_bandwidth(GpuBackend& backend) {
  const auto stream = backend.create_stream();
  const Buffer memory = backend.allocate(dtype_bytes(DType::kBF16, size_t{kRows} * size_t{kColumns}));
  const Buffer result = backend.allocate(sizeof(float));
  const AbsMax op{.x = memory.tensor(DType::kBF16, {kRows, kColumns}), .amax = result.tensor(DType::kF32, {1}), .workspace = {}};
  ops::require(backend, "measuring the memory bandwidth", op);
  stream->run([&](CommandList& cmd) {
    ops::dispatch(cmd, RandomFill{.out = op.x.reshape({kRows * kColumns}), .seed = 1, .exponent = 0});
  });
  ReadBandwidth best;
  std::string figures;
  for (const OpImplementation& implementation : backend.ops().find(AbsMax::schema().name())) {
    if (implementation.accepts && !implementation.accepts(&op)) continue;
    const double bytes_per_second = read_bandwidth_of(backend, *stream, implementation, op);
    best.bytes_per_second = std::max(best.bytes_per_second, bytes_per_second);
    figures += fmt::format("{}{} {:.1f}", figures.empty() ? "" : ", ", implementation.name, bytes_per_second / 1e9);
  }
  best.method = "abs_max over 2 GiB, GB/s: " + figures;
  return best;
}

}  // namespace

BandwidthMeter::BandwidthMeter(GpuBackend& backend) : backend_(backend) {
  const Capabilities& device = backend.capabilities();
  if (device.kind == DeviceKind::kCpu) host_.emplace(static_cast<int>(device.num_compute_units));
}

ReadBandwidth BandwidthMeter::measure() {
  if (!host_) return operator_read_bandwidth(backend_);
  const size_t threads = host_->num_threads();
  return {.bytes_per_second = host_->measure(), .method = std::to_string(threads) + (threads == 1 ? " thread" : " threads")};
}

ReadBandwidth median_bandwidth(const std::vector<ReadBandwidth>& measured) {
  std::vector<double> rates(measured.size());
  std::ranges::transform(measured, rates.begin(), &ReadBandwidth::bytes_per_second);
  const std::string& method = measured.front().method;
  return {.bytes_per_second = median(std::move(rates)),
          .method = measured.size() == 1 ? method : fmt::format("{}, median of {} measurements", method, measured.size())};
}

}  // namespace foretoken::cli
