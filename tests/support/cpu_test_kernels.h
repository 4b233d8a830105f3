// Kernels with known results, for tests of what runs kernels.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>

#include "backends/cpu/kernel_entry.h"
#include "backends/cpu/kernel_module.h"

namespace foretoken::test {

/// out[i] = in[(i + 1) % n] + 1, so items need what other threads wrote a launch before.
struct ShiftParams {
  DeviceAddress in;
  DeviceAddress out;
  uint32_t n;
};

inline void shift_items(const ShiftParams& p, uint32_t begin, uint32_t end) {
  const auto* in = reinterpret_cast<const int32_t*>(p.in);
  auto* out = reinterpret_cast<int32_t*>(p.out);
  for (uint32_t i = begin; i < end; ++i) out[i] = in[(i + 1) % p.n] + 1;
}

/// Throws in the work item `item`.
struct ThrowParams {
  uint32_t item;
};

inline void throw_items(const ThrowParams& p, uint32_t begin, uint32_t end) {
  if (begin <= p.item && p.item < end) throw std::runtime_error("deliberate fault");
}

/// Does nothing.
struct NothingParams {
  uint64_t unused;
};

inline void nothing(const NothingParams& /*p*/, uint32_t /*begin*/, uint32_t /*end*/) {}

inline const cpu::CpuKernelCode& nothing_kernel() {
  static const cpu::CpuKernelCode code(cpu::kernel_entry<NothingParams, nothing>("test_nothing"));
  return code;
}

inline const cpu::CpuKernelCode& shift_kernel() {
  static const cpu::CpuKernelCode code(cpu::kernel_entry<ShiftParams, shift_items>("test_shift"));
  return code;
}

inline const cpu::CpuKernelCode& throw_kernel() {
  static const cpu::CpuKernelCode code(cpu::kernel_entry<ThrowParams, throw_items>("test_throw"));
  return code;
}

/// Puts out = shift(in) on the list; both hold n I32.
inline void shift(CommandList& cmd, const BufferView& in, const BufferView& out) {
  const auto n = static_cast<uint32_t>(in.bytes / sizeof(int32_t));
  const std::array accesses{Access{.view = in, .mode = AccessMode::kRead}, Access{.view = out, .mode = AccessMode::kWrite}};
  Kernel<ShiftParams>{shift_kernel()}(cmd, Grid{.x = n}, {.in = in.address(), .out = out.address(), .n = n}, accesses);
}

/// Puts a launch of `num_items` items on the list that throws in the last one.
inline void fail(CommandList& cmd, uint32_t num_items) {
  Kernel<ThrowParams>{throw_kernel()}(cmd, Grid{.x = num_items}, {.item = num_items - 1}, {});
}

}  // namespace foretoken::test
