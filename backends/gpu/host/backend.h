// One device as a backend.
#pragma once

#include <atomic>

#include "backends/backend.h"
#include "backends/gpu/host/command_list.h"
#include "backends/gpu/host/kernel_module.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

/// The operators of this backend over the kernels of `module`, best first, for `device`. `module` must outlive the table.
[[nodiscard]] OpTable make_op_table(const KernelModule& module, int device = 0);

/// Streams of one backend may be used by several host threads, one thread each.
class RuntimeBackend final : public GpuBackend {
 public:
  /// `synchronous`: every launch is waited for, and Programs run launch by launch. Throws Unsupported when this build has no
  /// kernels for the device, DeviceError when the device cannot be used.
  RuntimeBackend(int device, bool synchronous);

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] Buffer allocate(size_t bytes, MemoryKind kind) override;
  [[nodiscard]] Buffer adopt_memory(const NativeMemory& memory) override;
  [[nodiscard]] size_t allocated_bytes() const override { return allocated_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override;
  [[nodiscard]] std::unique_ptr<Stream> adopt_stream(void* native) override;
  [[nodiscard]] std::unique_ptr<Event> create_event() override;
  [[nodiscard]] Program record(std::string_view label, const RecordFn& fn) override;
  [[nodiscard]] const OpTable& ops() const override { return ops_; }

 private:
  int device_;
  bool synchronous_;
  Capabilities capabilities_;
  RuntimeKernelModule kernels_;
  OpTable ops_;
  ListContext context_;
  std::atomic<size_t> allocated_bytes_{0};
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
