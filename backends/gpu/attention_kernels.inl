#pragma once

#include "backends/gpu/attention.inl"
#include "backends/gpu/kernel_lists.h"

namespace foretoken::gpu {

void add_attention_kernels(KernelList& list) {
  list.push_back(kernel_entry("gated_attention_split", gated_attention_split, kAttentionThreads));
  list.push_back(kernel_entry("gated_attention_combine", gated_attention_combine, kAttentionThreads));
  list.push_back(kernel_entry("gated_attention_rows", gated_attention_rows, kAttentionThreads));
}

}  // namespace foretoken::gpu
