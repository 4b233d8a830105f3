#pragma once

#include "backends/gpu/kernel_lists.h"
#include "backends/gpu/moe.inl"

namespace foretoken::gpu {

void add_moe_kernels(KernelList& list) {
  list.push_back(kernel_entry("moe_topk", moe_topk, kRouteThreads));
  list.push_back(kernel_entry("moe_group", moe_group, kGroupThreads));
  list.push_back(kernel_entry("moe_join", moe_join, kJoinThreads));
}

}  // namespace foretoken::gpu
