#include "backends/op_table.h"

#include "backends/gpu/gpu_ops.h"
#include "backends/vulkan/vulkan_backend.h"

namespace foretoken::vulkan {

OpTable make_op_table(const KernelModule& module) {
  OpTable table;
  gpu::add_attention_ops(table, module);
  gpu::add_delta_net_ops(table, module);
  gpu::add_norm_ops(table, module);
  gpu::add_sample_ops(table, module);
  gpu::add_sampling_ops(table, module);
  return table;
}

}  // namespace foretoken::vulkan
