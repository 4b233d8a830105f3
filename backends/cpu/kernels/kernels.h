// The kernel lists of each instruction set. Every kernels/<group>.cpp exports one list per set; kernels/kernels.cpp joins them.
#pragma once

#include <span>
#include <vector>

#include "backends/cpu/kernel_entry.h"

namespace foretoken::cpu {

/// Adds `entries` to `list`. Kernel sources use this instead of std::vector's inline functions, of which the linker might keep
/// the copy that was compiled for the widest instruction set.
void append(std::vector<KernelEntry>& list, std::span<const KernelEntry> entries);

}  // namespace foretoken::cpu

#define FORETOKEN_DECLARE_WEIGHT_KERNELS(isa)              \
  namespace foretoken::cpu::isa {                          \
  void add_linear_kernels(std::vector<KernelEntry>& list); \
  void add_moe_kernels(std::vector<KernelEntry>& list);    \
  }

#define FORETOKEN_DECLARE_CPU_KERNELS(isa)                         \
  FORETOKEN_DECLARE_WEIGHT_KERNELS(isa)                            \
  namespace foretoken::cpu::isa {                                  \
  void add_sampling_kernels(std::vector<KernelEntry>& list);       \
  void add_sample_kernels(std::vector<KernelEntry>& list);         \
  void add_process_logits_kernels(std::vector<KernelEntry>& list); \
  void add_norm_kernels(std::vector<KernelEntry>& list);           \
  void add_attention_kernels(std::vector<KernelEntry>& list);      \
  void add_delta_net_kernels(std::vector<KernelEntry>& list);      \
  void add_quantize_kernels(std::vector<KernelEntry>& list);       \
  }

FORETOKEN_DECLARE_CPU_KERNELS(scalar)
FORETOKEN_DECLARE_CPU_KERNELS(avx2)
FORETOKEN_DECLARE_CPU_KERNELS(avx512)
FORETOKEN_DECLARE_WEIGHT_KERNELS(avx512_vnni)

namespace foretoken::cpu {

/// All kernels for `isa`.
[[nodiscard]] std::vector<KernelEntry> kernels_for(Isa isa);

}  // namespace foretoken::cpu
