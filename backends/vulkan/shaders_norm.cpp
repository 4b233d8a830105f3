// rms_norm, mtp_input, rope_table, rope, qk_norm_rope_cache.
#include "backends/gpu/norm_params.h"
#include "backends/vulkan/shader_entry.h"
#include "foretoken_vulkan_shaders.h"

namespace foretoken::vulkan {

void add_norm_shaders(ShaderList& list) {
  list.push_back(shader_entry<gpu::RmsNormParams>("rms_norm", shaders::rms_norm, gpu::kNormThreads));
  list.push_back(shader_entry<gpu::RmsNormParams>("rms_norm_quads", shaders::rms_norm_quads, gpu::kNormThreads));
  list.push_back(shader_entry<gpu::MtpInputParams>("mtp_input", shaders::mtp_input, gpu::kNormThreads));
  list.push_back(shader_entry<gpu::RopeTableParams>("rope_table", shaders::rope_table, gpu::kHeadThreads));
  list.push_back(shader_entry<gpu::RopeParams>("rope", shaders::rope, gpu::kHeadThreads));
  list.push_back(shader_entry<gpu::QkNormRopeCacheParams>("qk_norm_rope_cache", shaders::qk_norm_rope_cache, gpu::kHeadThreads));
}

}  // namespace foretoken::vulkan
