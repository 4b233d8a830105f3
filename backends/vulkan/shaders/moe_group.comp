// The lists of pairs of moe_route (core/ops/moe.h), by one work group: invocation e counts and lists the pairs of experts e,
// e + kThreads, ...: ascending within each.
#version 460
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/moe_params.glsl"

PARAMS(MoeGroupParams);

shared int subgroup_totals[kThreads / kSubgroup];

void main() {
  const MoeGroupParams p = params;
  int begin = 0;  // pairs of the experts before this round's
  for (uint base = 0; base < p.num_experts; base += kThreads) {
    const uint expert = base + thread_index();
    int count = 0;
    for (uint i = 0; i < p.num_pairs; ++i) count += load_i32(p.topk_ids, i) == int(expert) ? 1 : 0;
    int end = subgroupInclusiveAdd(count);
    barrier();
    if (gl_SubgroupInvocationID == kSubgroup - 1) subgroup_totals[gl_SubgroupID] = end;
    barrier();
    int total = 0;
    for (uint subgroup = 0; subgroup < kThreads / kSubgroup; ++subgroup) {
      if (subgroup < gl_SubgroupID) end += subgroup_totals[subgroup];
      total += subgroup_totals[subgroup];
    }
    if (expert < p.num_experts) {
      int at = begin + end - count;
      store_i32(p.expert_offsets, expert, at);
      for (uint i = 0; i < p.num_pairs && count > 0; ++i) {
        if (load_i32(p.topk_ids, i) == int(expert)) store_i32(p.expert_pairs, at++, int(i));
      }
    }
    begin += total;
  }
  if (thread_index() == 0) store_i32(p.expert_offsets, p.num_experts, begin);
}
