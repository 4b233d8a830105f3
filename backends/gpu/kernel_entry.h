// How a GPU kernel looks to the host: what a backend whose kernels are C++ functions needs to launch it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace foretoken::gpu {

struct KernelEntry {
  std::string name;
  size_t params_bytes;
  const void* function;             // the host's handle of the kernel
  uint32_t num_threads;             // of a work group: fixed by the kernel, never by its caller
  bool makes_weights = false;       // writes what later kernels may read before they have waited for it: weights
  bool large_group_memory = false;  // may be launched with as much group memory as the device has, not only 48 KiB
  uint32_t min_architecture = 0;    // the first that has the instructions it needs, 90 for sm_90; absent below
  bool family_only = false;         // and later families lack them: 120 is for sm_120 and sm_121 alone
  uint32_t min_group_memory = 0;    // bytes that a work group must be able to have; absent on devices with less
  /// Why a device of an architecture lacks the instructions it needs, empty where it has them. Null: every device has them.
  std::string (*missing_instructions)(uint32_t architecture) = nullptr;
};

using KernelList = std::vector<KernelEntry>;

/// Makes an entry from a kernel that takes its own parameter structure by value.
template <class Params>
KernelEntry kernel_entry(std::string name, void (*kernel)(Params), uint32_t num_threads) {
  static_assert(std::is_trivially_copyable_v<Params> && std::is_standard_layout_v<Params>);
  return {.name = std::move(name),
          .params_bytes = sizeof(Params),
          .function = reinterpret_cast<const void*>(kernel),
          .num_threads = num_threads};
}

/// Likewise, for a kernel that writes weights.
template <class Params>
KernelEntry weight_maker_entry(std::string name, void (*kernel)(Params), uint32_t num_threads) {
  KernelEntry entry = kernel_entry(std::move(name), kernel, num_threads);
  entry.makes_weights = true;
  return entry;
}

}  // namespace foretoken::gpu
