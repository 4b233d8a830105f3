// gated_attention.
#include "backends/gpu/attention_params.h"
#include "backends/vulkan/shader_entry.h"
#include "foretoken_vulkan_shaders.h"

namespace foretoken::vulkan {

void add_attention_shaders(ShaderList& list) {
  const auto add = [&list](const char* name, const ShaderCode& code) {
    list.push_back(shader_entry<gpu::GatedAttentionParams>(name, code, gpu::kAttentionThreads));
  };
  add("gated_attention_split", shaders::gated_attention_split);
  add("gated_attention_combine", shaders::gated_attention_combine);
  add("gated_attention_rows", shaders::gated_attention_rows);
}

}  // namespace foretoken::vulkan
