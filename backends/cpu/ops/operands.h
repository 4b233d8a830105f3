// What the CPU's implementations need from operands: pointers, strides and the checks that several share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "backends/capabilities.h"
#include "backends/command_list.h"
#include "core/tensor.h"

namespace foretoken::cpu {

/// The first element; null for an absent tensor. Addresses of CPU buffers are host pointers.
template <class T>
[[nodiscard]] T* pointer(const Tensor& tensor) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(tensor.address()));
}

[[nodiscard]] inline size_t dimension(const Tensor& tensor, size_t axis) { return static_cast<size_t>(tensor.dim(axis)); }
[[nodiscard]] inline size_t row_stride(const Tensor& tensor) { return static_cast<size_t>(tensor.row_stride()); }

/// A launch over `count` work items.
[[nodiscard]] inline Grid items(size_t count) { return {.x = static_cast<uint32_t>(count), .y = 1, .z = 1}; }

[[nodiscard]] constexpr size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }

/// Refuses activations that are not float32.
[[nodiscard]] inline Availability float32_activations(std::initializer_list<const Tensor*> activations) {
  for (const Tensor* tensor : activations) {
    if (tensor->dtype() != DType::kF32) return Availability::no("activations are float32 on the CPU");
  }
  return Availability::yes();
}

}  // namespace foretoken::cpu
