#include <utility>

#include "backends/gpu/gpu_ops.h"
#include "backends/linear_group_parts.h"
#include "backends/moe_block_parts.h"

namespace foretoken::gpu {

OpTable portable_op_table(const KernelModule& module, OpTable preferred) {
  OpTable table = std::move(preferred);
  add_linear_ops(table, module);
  add_moe_ops(table, module);
  add_quantize_ops(table, module);
  add_sampling_ops(table, module);
  add_sample_ops(table, module);
  add_norm_ops(table, module);
  add_attention_ops(table, module);
  add_delta_net_ops(table, module);
  add_linear_group_parts(table);
  add_moe_block_parts(table);
  return table;
}

}  // namespace foretoken::gpu
