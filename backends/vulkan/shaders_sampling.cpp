// argmax, select_tokens, accept_drafts, embedding, random_fill.
#include "backends/gpu/sampling_params.h"
#include "backends/vulkan/shader_entry.h"
#include "foretoken_vulkan_shaders.h"

namespace foretoken::vulkan {

void add_sampling_shaders(ShaderList& list) {
  list.push_back(shader_entry<gpu::ArgmaxParams>("argmax", shaders::argmax, kRowThreads));
  list.push_back(shader_entry<gpu::SelectTokensParams>("select_tokens", shaders::select_tokens, gpu::kTokenThreads));
  list.push_back(shader_entry<gpu::AcceptDraftsParams>("accept_drafts", shaders::accept_drafts, gpu::kTokenThreads));
  list.push_back(shader_entry<gpu::EmbeddingParams>("embedding", shaders::embedding, gpu::kEmbeddingThreads));
  list.push_back(shader_entry<gpu::RandomFillParams>("random_fill", shaders::random_fill, gpu::kRandomThreads));
}

}  // namespace foretoken::vulkan
