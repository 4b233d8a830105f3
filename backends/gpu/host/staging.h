// Pinned memory between the caller's and the device's, so that neither direction waits for what it need not.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "backends/gpu/host/handles.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

/// For one stream, whose device must be the current one at each call. Memory is taken at the first use.
class Staging {
 public:
  /// Copies `source` to `destination` on the device, behind the stream's work; `source` may be reused when the call returns.
  /// Waits only while both halves of the ring are still being read.
  void upload(runtime::Stream stream, std::span<const std::byte> source, void* destination);
  /// Copies from the device; the bytes are there once the caller has waited for the stream and called `finish_download`.
  void begin_download(runtime::Stream stream, const void* source, std::span<std::byte> destination);
  void finish_download(std::span<std::byte> destination) const;

 private:
  static constexpr size_t kHalfBytes = size_t{4} << 20;
  static constexpr size_t kDownloadBytes = size_t{64} << 10;  // longer ones go straight to the caller's memory

  struct Half {
    EventHandle read;  // when the device has read this half
    bool in_flight = false;
  };

  void prepare_upload();
  void next_half(runtime::Stream stream);

  PinnedMemory ring_;
  std::array<Half, 2> halves_;
  size_t half_ = 0;
  size_t used_ = 0;  // bytes of the current half
  PinnedMemory download_;
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
