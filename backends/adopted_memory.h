// Memory of the caller as a Buffer: for backends whose addresses are all they need to reach memory.
#pragma once

#include <cstddef>

#include "core/tensor.h"

namespace foretoken {

/// Frees nothing. Device memory to those who look at it, wherever it lies.
class AdoptedMemory final : public BufferHandle {
 public:
  AdoptedMemory(DeviceAddress address, size_t bytes) : address_(address), bytes_(bytes) {}

  [[nodiscard]] size_t bytes() const override { return bytes_; }
  [[nodiscard]] DeviceAddress address() const override { return address_; }
  [[nodiscard]] MemoryKind kind() const override { return MemoryKind::kDevice; }
  [[nodiscard]] std::byte* host_data() const override { return nullptr; }

 private:
  DeviceAddress address_;
  size_t bytes_;
};

/// What GpuBackend::adopt_memory demands of memory of every kind, which the device sees at `address`. Throws InvalidArgument when
/// it is null or empty, misaligned, or reaches past the last address.
void check_adoptable(const NativeMemory& memory, DeviceAddress address);

}  // namespace foretoken
