// What the implementations need from operands: strides, flags and the checks that several share.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "backends/capabilities.h"
#include "backends/command_list.h"
#include "backends/view_checks.h"
#include "core/tensor.h"

namespace foretoken::gpu {

/// A dimension as kernels take it; OpSchema and the loaders keep dimensions far below 2^32.
[[nodiscard]] inline uint32_t extent(const Tensor& tensor, size_t axis) { return static_cast<uint32_t>(tensor.dim(axis)); }
/// Elements from one row to the next; 0 for an absent tensor.
[[nodiscard]] inline uint64_t stride(const Tensor& tensor) { return static_cast<uint64_t>(tensor.row_stride()); }
/// How kernels tell BF16 from F32.
[[nodiscard]] inline uint32_t is_bf16(const Tensor& tensor) { return tensor.dtype() == DType::kBF16 ? 1U : 0U; }

template <std::unsigned_integral T>
[[nodiscard]] constexpr T ceil_div(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

[[nodiscard]] inline Availability dim_at_most(const Tensor& tensor, size_t axis, int64_t limit, const std::string& what) {
  if (tensor.dim(axis) <= limit) return Availability::yes();
  return Availability::no(what + " of at most " + std::to_string(limit) + " elements");
}

}  // namespace foretoken::gpu
