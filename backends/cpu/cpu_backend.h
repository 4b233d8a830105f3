// The CPU as a backend.
#pragma once

#include <atomic>
#include <memory>

#include "backends/backend.h"
#include "backends/cpu/kernel_module.h"
#include "backends/cpu/thread_pool.h"

namespace foretoken::cpu {

/// The operators of the CPU over the kernels of `module`, best first. `module` must outlive the table.
[[nodiscard]] OpTable make_op_table(const KernelModule& module);

/// Streams of one backend may be used by several host threads, one thread each: their work takes turns on the pool.
class CpuBackend final : public GpuBackend {
 public:
  /// `eager`: Programs run launch by launch. Throws InvalidArgument for a number of threads out of range or an unknown
  /// FORETOKEN_CPU_ISA, Unsupported for an instruction set that this machine lacks.
  CpuBackend(const BackendOptions& options, bool eager);

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] Buffer allocate(size_t bytes, MemoryKind kind) override;
  [[nodiscard]] Buffer adopt_memory(const NativeMemory& memory) override;
  [[nodiscard]] size_t allocated_bytes() const override { return allocated_bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override;
  [[nodiscard]] std::unique_ptr<Event> create_event() override;
  [[nodiscard]] Program record(std::string_view label, const RecordFn& fn) override;
  [[nodiscard]] const OpTable& ops() const override { return ops_; }

  [[nodiscard]] const CpuKernelModule& kernels() const { return kernels_; }

 private:
  int num_threads_;
  CpuKernelModule kernels_;
  Capabilities capabilities_;
  OpTable ops_;
  bool eager_;
  std::atomic<size_t> allocated_bytes_{0};
  ThreadPool pool_;
};

}  // namespace foretoken::cpu
