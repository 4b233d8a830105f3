// One device behind one interface: memory, streams, recording, and which operators run there. It knows no operator itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/buffer.h"
#include "backends/capabilities.h"
#include "backends/native.h"
#include "backends/op_table.h"
#include "backends/stream.h"

namespace foretoken {

/// Thread-compatible; must outlive all it created.
class GpuBackend {
 public:
  GpuBackend() = default;
  GpuBackend(const GpuBackend&) = delete;
  GpuBackend& operator=(const GpuBackend&) = delete;
  virtual ~GpuBackend() = default;

  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  /// Memory aligned to at least 256 bytes, contents undefined. Throws OutOfMemory with the size asked for and what is free.
  [[nodiscard]] virtual Buffer allocate(size_t bytes, MemoryKind kind = MemoryKind::kDevice) = 0;
  /// Memory of the caller as a Buffer of kind kDevice that frees nothing and that `allocated_bytes` does not count. The memory
  /// stays the caller's: it must live until the Buffer is gone and all work that uses it has finished, and what the caller does
  /// with it meanwhile must be ordered with that work. `memory` must begin at a multiple of kNativeAlignment. CPU: memory of the
  /// host. CUDA, HIP: memory of this device or managed memory, all of it allocated (that is checked). Vulkan: a VkBuffer of this
  /// device, bound to memory, with the usages SHADER_DEVICE_ADDRESS, STORAGE_BUFFER, TRANSFER_SRC and TRANSFER_DST, that queues
  /// of this backend's family may use. Throws InvalidArgument for memory that is null, empty, misaligned, too small or of another
  /// device; Unsupported where the backend can adopt none.
  [[nodiscard]] virtual Buffer adopt_memory(const NativeMemory& memory);
  /// Bytes that allocations of this backend hold now.
  [[nodiscard]] virtual size_t allocated_bytes() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> create_stream() = 0;
  /// A Stream that puts its work on a stream of the caller, behind what is there already; what the caller puts there after a call
  /// of ours runs behind that call's work. `native` is a cudaStream_t or a hipStream_t of this device's primary context (null:
  /// the default stream that waits for others, the "legacy" one) and must outlive the Stream. Waiting calls wait for the caller's
  /// work on it too. While the caller captures the stream into a graph, every call throws InvalidState. Throws InvalidArgument
  /// for a stream of another device and for a handle that stands for another stream on each thread, Unsupported where a backend
  /// has no streams of a caller: on the CPU, and on Vulkan, where the queue comes with the device (VulkanDevice).
  [[nodiscard]] virtual std::unique_ptr<Stream> adopt_stream(void* native);
  [[nodiscard]] virtual std::unique_ptr<Event> create_event() = 0;
  /// Keeps what `fn` puts on the list. `fn` must allocate nothing and read nothing back; it is kept and must stay callable.
  [[nodiscard]] virtual Program record(std::string_view label, const RecordFn& fn) = 0;
  /// The operators that can run here, best implementation first.
  [[nodiscard]] virtual const OpTable& ops() const = 0;
};

/// Choices that a user makes when a device is opened.
struct BackendOptions {
  int num_threads = 0;                   // CPU pool; 0: one per core that this process may use
  std::optional<VulkanDevice> vulkan{};  // opened as "vulkan" instead of a device of the machine's list
};

/// One kind of backend: finds its devices and opens them. Built in, or exported by a module (see backend_module.h).
class BackendProvider {
 public:
  BackendProvider() = default;
  BackendProvider(const BackendProvider&) = delete;
  BackendProvider& operator=(const BackendProvider&) = delete;
  virtual ~BackendProvider() = default;

  /// "cpu", "cuda", ...
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether any device can be used; the reason otherwise ("no driver: ...").
  [[nodiscard]] virtual Availability availability() const = 0;
  /// What each device can do, in the order of their indices; empty when not available.
  [[nodiscard]] virtual std::vector<Capabilities> devices() const = 0;
  /// Opens a device: `device_index` of the list, or the caller's own where `options` brings one of this backend's kind. Throws
  /// InvalidArgument (no such index, handles of the caller that are not what they should be), Unsupported or DeviceError with the
  /// reason.
  [[nodiscard]] virtual std::unique_ptr<GpuBackend> open(int device_index, const BackendOptions& options) const = 0;
};

}  // namespace foretoken
