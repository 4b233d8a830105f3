#include "backends/op_table.h"

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/host/backend.h"
#include "backends/gpu/kernel_lists.h"
#include "backends/linear_group_parts.h"
#include "backends/moe_block_parts.h"

namespace foretoken::hip {

gpu::KernelList all_kernels() { return gpu::common_kernels(); }

OpTable make_op_table(const KernelModule& module, int /*device*/) {
  OpTable table;
  gpu::add_linear_ops(table, module);
  gpu::add_moe_ops(table, module);
  gpu::add_quantize_ops(table, module);
  gpu::add_sampling_ops(table, module);
  gpu::add_sample_ops(table, module);
  gpu::add_norm_ops(table, module);
  gpu::add_attention_ops(table, module);
  gpu::add_delta_net_ops(table, module);
  add_linear_group_parts(table);
  add_moe_block_parts(table);
  return table;
}

}  // namespace foretoken::hip
