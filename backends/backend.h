// One device behind one interface: memory, streams, recording, and which operators run there. It knows no operator itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/buffer.h"
#include "backends/capabilities.h"
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
  /// Bytes that allocations of this backend hold now.
  [[nodiscard]] virtual size_t allocated_bytes() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> create_stream() = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> create_event() = 0;
  /// Keeps what `fn` puts on the list. `fn` must allocate nothing and read nothing back; it is kept and must stay callable.
  [[nodiscard]] virtual Program record(std::string_view label, const RecordFn& fn) = 0;
  /// The operators that can run here, best implementation first.
  [[nodiscard]] virtual const OpTable& ops() const = 0;
};

/// Choices that a user makes when a device is opened.
struct BackendOptions {
  int num_threads = 0;  // CPU pool; 0: one per core that this process may use
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
  /// Opens a device. Throws InvalidArgument (no such index), Unsupported or DeviceError with the reason.
  [[nodiscard]] virtual std::unique_ptr<GpuBackend> open(int device_index, const BackendOptions& options) const = 0;
};

}  // namespace foretoken
