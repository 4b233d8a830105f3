// What a sequence holds on the device, kept in host memory while it is preempted.
#pragma once

#include <span>

#include "backends/backend.h"

namespace foretoken {

/// All bits of some pieces of device memory. A preempted sequence is one copy of, in this order: its target blocks
/// (PagedKvCache::append_views), its states (RecurrentStateStore::append_views, after commit), its drafter blocks, and the hidden
/// rows that its drafter has not taken in. It is put back into other blocks and another slot, in the same order. Not thread-safe.
class HostCopy {
 public:
  /// Copies `pieces` and waits until they are there; their owners may then be released. Throws OutOfMemory when the host has no
  /// memory for them, with nothing changed.
  HostCopy(GpuBackend& backend, Stream& stream, std::span<const BufferView> pieces);

  /// Writes the bytes into `pieces`, which may be cut elsewhere, and waits. Throws InvalidArgument, with nothing written, unless
  /// they have as many bytes in all.
  void restore(Stream& stream, std::span<const BufferView> pieces) const;
  [[nodiscard]] size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;  // host visible
};

}  // namespace foretoken
