#pragma once

#include "backends/gpu/kernel_lists.h"
#include "backends/gpu/linear_combine.inl"

namespace foretoken::gpu {

void add_linear_combine_kernels(KernelList& list) {
  list.push_back(kernel_entry("linear_argmax_combine", linear_argmax_combine, kCombineThreads));
  list.push_back(kernel_entry("linear_argmax_logits", linear_argmax_logits, kCombineThreads));
}

}  // namespace foretoken::gpu
