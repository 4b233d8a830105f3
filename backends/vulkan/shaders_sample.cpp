// process_logits, count_tokens, sample_tokens, sample_drafts, accept_sampled.
#include "backends/gpu/sample_params.h"
#include "backends/vulkan/shader_entry.h"
#include "foretoken_vulkan_shaders.h"

namespace foretoken::vulkan {

void add_sample_shaders(ShaderList& list) {
  list.push_back(shader_entry<gpu::ProcessLogitsParams>("process_logits", shaders::process_logits, kRowThreads));
  list.push_back(shader_entry<gpu::CountTokensParams>("count_tokens", shaders::count_tokens, gpu::kCountThreads));
  list.push_back(shader_entry<gpu::SampleTokensParams>("sample_tokens", shaders::sample_tokens, kRowThreads));
  list.push_back(shader_entry<gpu::SampleDraftsParams>("sample_drafts", shaders::sample_drafts, kRowThreads));
  list.push_back(shader_entry<gpu::AcceptSampledParams>("accept_sampled", shaders::accept_sampled, kRowThreads));
}

}  // namespace foretoken::vulkan
