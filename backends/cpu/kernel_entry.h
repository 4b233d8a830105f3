// How a CPU kernel looks to the backend: a function over a range of work items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace foretoken::cpu {

/// Computes work items [begin, end) of the launch. An item's result must not depend on which range it was part of, so bits do not
/// depend on the number of threads. `params` points to the parameter structure that the entry was declared with.
using KernelFn = void (*)(const void* params, uint32_t begin, uint32_t end);

struct KernelEntry {
  std::string_view name;
  size_t params_bytes;
  KernelFn function;
};

/// Instruction sets that kernels are compiled for, worst first.
enum class Isa : uint8_t { kScalar, kAvx2, kAvx512, kAvx512Vnni };

/// Makes an entry from a function that takes its own parameter structure.
template <class Params, void (*Function)(const Params&, uint32_t, uint32_t)>
constexpr KernelEntry kernel_entry(std::string_view name) {
  return {.name = name, .params_bytes = sizeof(Params), .function = [](const void* params, uint32_t begin, uint32_t end) {
            Function(*static_cast<const Params*>(params), begin, end);
          }};
}

}  // namespace foretoken::cpu
