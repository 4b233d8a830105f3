#include "backends/cuda/cuda_staging.h"

#include <algorithm>
#include <cstring>

namespace foretoken::cuda {
namespace {

constexpr size_t kAlignment = 256;

}  // namespace

void CudaStaging::upload(cudaStream_t stream, std::span<const std::byte> source, void* destination) {
  prepare_upload();
  auto* out = static_cast<std::byte*>(destination);
  while (!source.empty()) {
    if (used_ == kHalfBytes) next_half(stream);
    const size_t bytes = std::min(source.size(), kHalfBytes - used_);
    std::byte* staged = ring_.get() + half_ * kHalfBytes + used_;
    std::memcpy(staged, source.data(), bytes);
    check(cudaMemcpyAsync(out, staged, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    source = source.subspan(bytes);
    out += bytes;
    used_ = std::min(kHalfBytes, used_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
}

void CudaStaging::begin_download(cudaStream_t stream, const void* source, std::span<std::byte> destination) {
  void* target = destination.data();
  if (destination.size() <= kDownloadBytes) {
    if (download_ == nullptr) download_ = make_pinned(kDownloadBytes);
    target = download_.get();
  }
  check(cudaMemcpyAsync(target, source, destination.size(), cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void CudaStaging::finish_download(std::span<std::byte> destination) const {
  if (destination.size() <= kDownloadBytes) std::memcpy(destination.data(), download_.get(), destination.size());
}

void CudaStaging::prepare_upload() {
  if (ring_ != nullptr) return;
  for (Half& half : halves_) half.read = make_event(cudaEventDisableTiming);
  ring_ = make_pinned(2 * kHalfBytes);
}

void CudaStaging::next_half(cudaStream_t stream) {
  check(cudaEventRecord(halves_[half_].read.get(), stream), "cudaEventRecord");
  halves_[half_].in_flight = true;
  half_ = 1 - half_;
  used_ = 0;
  if (!halves_[half_].in_flight) return;
  check(cudaEventSynchronize(halves_[half_].read.get()), "cudaEventSynchronize");
  halves_[half_].in_flight = false;
}

}  // namespace foretoken::cuda
