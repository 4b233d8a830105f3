// Parameters of the kernels that move memory. Addresses are the device's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foretoken::gpu {

inline constexpr uint32_t kFillThreads = 256;
/// Bytes that one work group fills.
inline constexpr size_t kFillBytes = size_t{32} << 10;

struct FillParams {
  uint64_t destination;
  uint64_t num_bytes;  // a multiple of 4
  uint32_t pattern;
  uint32_t reserved;
};

inline constexpr uint32_t kCopyThreads = 256;
/// The longest copy by a kernel; the copy engine, which starts and ends later than a kernel does, is for longer ones.
inline constexpr size_t kCopyBytes = size_t{64} << 10;

/// One work group. The ranges do not overlap.
struct CopyParams {
  uint64_t source;
  uint64_t destination;
  uint64_t num_bytes;
};

[[nodiscard]] constexpr uint32_t fill_groups(size_t num_bytes) {
  return static_cast<uint32_t>((num_bytes + kFillBytes - 1) / kFillBytes);
}

}  // namespace foretoken::gpu
