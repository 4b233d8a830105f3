// The kernels of one device, by name.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "backends/gpu/kernel_entry.h"
#include "backends/kernel.h"
#include "gpu_runtime.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

class RuntimeKernelCode final : public KernelCode {
 public:
  explicit RuntimeKernelCode(const gpu::KernelEntry& entry)
      : KernelCode(entry.name, entry.params_bytes),
        function_(entry.function),
        num_threads_(entry.num_threads),
        min_architecture_(entry.min_architecture),
        min_group_memory_(entry.min_group_memory),
        missing_instructions_(entry.missing_instructions),
        family_only_(entry.family_only),
        makes_weights_(entry.makes_weights),
        large_group_memory_(entry.large_group_memory) {}

  [[nodiscard]] const void* function() const { return function_; }
  [[nodiscard]] uint32_t num_threads() const { return num_threads_; }
  /// Whether what it writes may be read by a kernel that has not waited: the next launch must not start early.
  [[nodiscard]] bool makes_weights() const { return makes_weights_; }
  [[nodiscard]] bool large_group_memory() const { return large_group_memory_; }
  /// Why a device of this architecture (kernel_entry.h) cannot run it; empty: it can.
  [[nodiscard]] std::string absent_reason(uint32_t architecture) const;
  /// `architecture`: the one whose instructions the loaded code was compiled for, which an older build's may lack.
  void set_loaded(uint32_t architecture) { loaded_architecture_ = architecture; }
  [[nodiscard]] uint32_t min_group_memory() const { return min_group_memory_; }

 private:
  const void* function_;
  uint32_t num_threads_;
  uint32_t min_architecture_;
  uint32_t min_group_memory_;
  std::string (*missing_instructions_)(uint32_t architecture);
  uint32_t loaded_architecture_ = UINT32_MAX;  // not loaded: as if it were for all
  bool family_only_;
  bool makes_weights_;
  bool large_group_memory_;
};

/// All kernels of this build.
[[nodiscard]] gpu::KernelList all_kernels();

class RuntimeKernelModule final : public KernelModule {
 public:
  /// Without a device: names and sizes only, for tests. Throws InternalError when two kernels have one name.
  RuntimeKernelModule();
  /// Loads every kernel that `device` has the instructions for, so that nothing is loaded later, inside a recording. Throws
  /// Unsupported when this build has no code for the device.
  explicit RuntimeKernelModule(int device);

  [[nodiscard]] const KernelCode* find(std::string_view name, std::string& reason) const override;
  [[nodiscard]] size_t size() const { return kernels_.size(); }

 private:
  uint32_t architecture_ = 0;      // of the device; 0 without one
  uint32_t max_group_memory_ = 0;  // likewise
  std::map<std::string, RuntimeKernelCode, std::less<>> kernels_;
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
