#pragma once

#include "backends/gpu/kernel_lists.h"
#include "backends/gpu/process_logits.inl"
#include "backends/gpu/sample.inl"

namespace foretoken::gpu {

void add_sample_kernels(KernelList& list) {
  list.push_back(kernel_entry("process_logits", process_logits, kSampleThreads));
  list.push_back(kernel_entry("count_tokens", count_tokens, kCountThreads));
  list.push_back(kernel_entry("sample_tokens", sample_tokens, kSampleThreads));
  list.push_back(kernel_entry("sample_drafts", sample_drafts, kSampleThreads));
  list.push_back(kernel_entry("accept_sampled", accept_sampled, kSampleThreads));
}

}  // namespace foretoken::gpu
