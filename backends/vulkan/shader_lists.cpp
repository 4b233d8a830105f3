#include "backends/vulkan/shader_entry.h"

namespace foretoken::vulkan {

ShaderList all_shaders() {
  ShaderList list;
  add_attention_shaders(list);
  add_delta_net_shaders(list);
  add_linear_shaders(list);
  add_norm_shaders(list);
  add_quantize_shaders(list);
  add_sample_shaders(list);
  add_sampling_shaders(list);
  return list;
}

}  // namespace foretoken::vulkan
