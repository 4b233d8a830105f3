// What the CPU's implementations need from operands: pointers, strides and the checks that several share.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

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
/// A dimension as kernels take it that count in 32 bits; OpSchema and the loaders keep dimensions far below 2^32.
[[nodiscard]] inline uint32_t extent(const Tensor& tensor, size_t axis) { return static_cast<uint32_t>(tensor.dim(axis)); }
/// Elements from one row to the next.
[[nodiscard]] inline size_t stride(const Tensor& tensor) { return static_cast<size_t>(tensor.row_stride()); }

/// A launch over `count` work items.
[[nodiscard]] inline Grid items(size_t count) { return {.x = static_cast<uint32_t>(count), .y = 1, .z = 1}; }

template <std::unsigned_integral T>
[[nodiscard]] constexpr T ceil_div(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

/// No, with the reason, unless all the tensors that are there hold float32.
[[nodiscard]] inline Availability activations_are_f32(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) {
    if (*tensor && tensor->dtype() != DType::kF32) return Availability::no("activations are float32 on the CPU");
  }
  return Availability::yes();
}

}  // namespace foretoken::cpu
