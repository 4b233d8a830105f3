#pragma once

#include "backends/gpu/delta_rule.inl"
#include "backends/gpu/kernel_lists.h"

namespace foretoken::gpu {

void add_delta_net_kernels(KernelList& list) {
  list.push_back(kernel_entry("causal_conv1d_silu", causal_conv1d_silu, kConvThreads));
  list.push_back(kernel_entry("gated_delta_rule_any", gated_delta_rule<AnyHeads>, kWholeHeadThreads));
  list.push_back(kernel_entry("gated_delta_rule_whole", gated_delta_rule<WholeHeads>, kWholeHeadThreads));
}

}  // namespace foretoken::gpu
