// One device as a backend.
#pragma once

#include <atomic>
#include <memory>

#include "backends/backend.h"
#include "backends/vulkan/vulkan_command_list.h"

namespace foretoken::vulkan {

/// The operators of this backend over the kernels of `module`, best first. `module` must outlive the table.
[[nodiscard]] OpTable make_op_table(const KernelModule& module);

/// Streams of one backend may be used by several host threads, one thread each.
class VulkanBackend final : public GpuBackend {
 public:
  /// `synchronous`: every launch is waited for, and Programs run launch by launch. Throws DeviceError when the device cannot be
  /// used.
  VulkanBackend(std::unique_ptr<Device> device, bool synchronous);

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] Buffer allocate(size_t bytes, MemoryKind kind) override;
  [[nodiscard]] Buffer adopt_memory(const NativeMemory& memory) override;
  [[nodiscard]] size_t allocated_bytes() const override { return allocated_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override;
  [[nodiscard]] std::unique_ptr<Event> create_event() override;
  [[nodiscard]] Program record(std::string_view label, const RecordFn& fn) override;
  [[nodiscard]] const OpTable& ops() const override { return ops_; }

 private:
  std::unique_ptr<Device> device_;
  bool synchronous_;
  Capabilities capabilities_;
  PipelineFactory pipelines_;
  VulkanKernelModule kernels_;
  OpTable ops_;
  ListContext context_;
  std::atomic<size_t> allocated_bytes_{0};
};

}  // namespace foretoken::vulkan
