// causal_conv1d_silu, gated_delta_rule.
#include "backends/gpu/delta_net_params.h"
#include "backends/vulkan/shader_entry.h"
#include "foretoken_vulkan_shaders.h"

namespace foretoken::vulkan {

void add_delta_net_shaders(ShaderList& list) {
  list.push_back(shader_entry<gpu::CausalConv1dSiluParams>("causal_conv1d_silu", shaders::causal_conv1d_silu, gpu::kConvThreads));
  list.push_back(
      shader_entry<gpu::GatedDeltaRuleParams>("gated_delta_rule_any", shaders::gated_delta_rule_any, gpu::kWholeHeadThreads));
}

}  // namespace foretoken::vulkan
