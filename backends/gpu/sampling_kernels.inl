#pragma once

#include "backends/gpu/kernel_lists.h"
#include "backends/gpu/sampling.inl"

namespace foretoken::gpu {

void add_sampling_kernels(KernelList& list) {
  list.push_back(kernel_entry("argmax", argmax, kArgmaxThreads));
  list.push_back(kernel_entry("select_tokens", select_tokens, kTokenThreads));
  list.push_back(kernel_entry("accept_drafts", accept_drafts, kTokenThreads));
  list.push_back(kernel_entry("embedding", embedding, kEmbeddingThreads));
  list.push_back(weight_maker_entry("random_fill", random_fill, kRandomThreads));
  list.push_back(kernel_entry("copy", copy, kCopyThreads));
  list.push_back(weight_maker_entry("fill", fill, kFillThreads));
}

}  // namespace foretoken::gpu
