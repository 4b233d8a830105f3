#include "backends/gpu/host/staging.h"

#include <algorithm>
#include <cstring>

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

constexpr size_t kAlignment = 256;

}  // namespace

void Staging::upload(runtime::Stream stream, std::span<const std::byte> source, void* destination) {
  prepare_upload();
  auto* out = static_cast<std::byte*>(destination);
  while (!source.empty()) {
    if (used_ == kHalfBytes) next_half(stream);
    const size_t bytes = std::min(source.size(), kHalfBytes - used_);
    std::byte* staged = ring_.get() + half_ * kHalfBytes + used_;
    std::memcpy(staged, source.data(), bytes);
    check(runtime::copy_async(out, staged, bytes, stream));
    source = source.subspan(bytes);
    out += bytes;
    used_ = std::min(kHalfBytes, used_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
}

void Staging::begin_download(runtime::Stream stream, const void* source, std::span<std::byte> destination) {
  void* target = destination.data();
  if (destination.size() <= kDownloadBytes) {
    if (download_ == nullptr) download_ = make_pinned(kDownloadBytes);
    target = download_.get();
  }
  check(runtime::copy_async(target, source, destination.size(), stream));
}

void Staging::finish_download(std::span<std::byte> destination) const {
  if (destination.size() <= kDownloadBytes) std::memcpy(destination.data(), download_.get(), destination.size());
}

void Staging::prepare_upload() {
  if (ring_ != nullptr) return;
  for (Half& half : halves_) half.read = make_event(/*keeps_time=*/false);
  ring_ = make_pinned(2 * kHalfBytes);
}

void Staging::next_half(runtime::Stream stream) {
  check(runtime::record(halves_[half_].read.get(), stream));
  halves_[half_].in_flight = true;
  half_ = 1 - half_;
  used_ = 0;
  if (!halves_[half_].in_flight) return;
  check(runtime::synchronize(halves_[half_].read.get()));
  halves_[half_].in_flight = false;
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
