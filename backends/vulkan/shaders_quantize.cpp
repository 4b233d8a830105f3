// abs_max, quantize_fp8_row, quantize_fp8_block, quantize_nvfp4, dequantize.
#include "backends/gpu/quantize_params.h"
#include "backends/vulkan/shader_entry.h"
#include "foretoken_vulkan_shaders.h"

namespace foretoken::vulkan {

void add_quantize_shaders(ShaderList& list) {
  list.push_back(shader_entry<gpu::AbsMaxParams>("abs_max", shaders::abs_max, gpu::kQuantizeThreads));
  list.push_back(shader_entry<gpu::AbsMaxJoinParams>("abs_max_join", shaders::abs_max_join, gpu::kQuantizeThreads));
  list.push_back(shader_entry<gpu::QuantizeFp8RowParams>("quantize_fp8_row", shaders::quantize_fp8_row, gpu::kQuantizeThreads));
  list.push_back(
      shader_entry<gpu::QuantizeFp8BlockParams>("quantize_fp8_block", shaders::quantize_fp8_block, gpu::kQuantizeThreads));
  list.push_back(shader_entry<gpu::QuantizeNvfp4Params>("quantize_nvfp4", shaders::quantize_nvfp4, gpu::kQuantizeThreads));
  list.push_back(shader_entry<gpu::DequantizeParams>("dequantize", shaders::dequantize, gpu::kQuantizeThreads));
}

}  // namespace foretoken::vulkan
