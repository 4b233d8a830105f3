// The list of kernels of one weight format: linear_bf16_r4 takes 4 rows together, linear_bf16_any operands of any alignment.
#pragma once

#include "backends/gpu/kernel_lists.h"
#include "backends/gpu/linear.inl"
#include "backends/gpu/moe_experts.inl"

namespace foretoken::gpu {

template <class Format, int kRows, bool kAligned>
void add_linear_kernels(KernelList& list, const std::string& variant) {
  list.push_back(kernel_entry("linear_" + variant, linear<Format, kRows, kAligned>, kLinearThreads));
  list.push_back(kernel_entry("linear_silu_mul_" + variant, linear_silu_mul<Format, kRows, kAligned>, kLinearThreads));
  list.push_back(kernel_entry("linear_argmax_" + variant, linear_argmax<Format, kRows, kAligned>, kArgmaxThreads));
}

/// For one row. The partial results of linear_argmax are those of whole tiles whatever the number of rows, so it has none.
template <class Format>
void add_narrow_kernels(KernelList& list, const std::string& variant) {
  list.push_back(kernel_entry("linear_" + variant + "_narrow", linear<Format, 1, true, kNarrowWarpColumns>, kLinearThreads));
  list.push_back(kernel_entry("linear_silu_mul_" + variant + "_narrow", linear_silu_mul<Format, 1, true, kNarrowWarpColumns>,
                              kLinearThreads));
  list.push_back(kernel_entry("linear_argmax_" + variant, linear_argmax<Format, 1, true>, kArgmaxThreads));
}

template <class Format, int kRows, bool kAligned>
void add_expert_kernels(KernelList& list, const std::string& variant) {
  list.push_back(kernel_entry("moe_experts_up_" + variant, moe_experts<Format, true, kRows, kAligned>, kLinearThreads));
  list.push_back(kernel_entry("moe_experts_down_" + variant, moe_experts<Format, false, kRows, kAligned>, kLinearThreads));
}

/// `format` names the format in kernel names: "bf16".
template <class Format>
void add_weight_kernels(KernelList& list, const std::string& format) {
  add_narrow_kernels<Format>(list, format + "_r1");
  add_linear_kernels<Format, 2, true>(list, format + "_r2");
  add_linear_kernels<Format, 4, true>(list, format + "_r4");
  add_linear_kernels<Format, 8, true>(list, format + "_r8");
  add_linear_kernels<Format, 4, false>(list, format + "_any");
  add_expert_kernels<Format, 1, true>(list, format + "_r1");
  add_expert_kernels<Format, 4, true>(list, format + "_r4");
  add_expert_kernels<Format, 4, false>(list, format + "_any");
}

}  // namespace foretoken::gpu
