#pragma once

#include "backends/gpu/kernel_lists.h"
#include "backends/gpu/norm.inl"

namespace foretoken::gpu {

void add_norm_kernels(KernelList& list) {
  list.push_back(kernel_entry("rms_norm", rms_norm, kNormThreads));
  list.push_back(kernel_entry("rms_norm_quads", rms_norm_quads, kNormThreads));
  list.push_back(kernel_entry("mtp_input", mtp_input, kNormThreads));
  list.push_back(kernel_entry("rope_table", rope_table, kHeadThreads));
  list.push_back(kernel_entry("rope", rope, kHeadThreads));
  list.push_back(kernel_entry("qk_norm_rope_cache", qk_norm_rope_cache, kHeadThreads));
}

}  // namespace foretoken::gpu
