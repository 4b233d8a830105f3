#include "backends/op_table.h"

#include "backends/cuda/cuda_ops.h"
#include "backends/gpu/delta_net_params.h"
#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/host/backend.h"
#include "backends/linear_group_parts.h"
#include "backends/moe_block_parts.h"

namespace foretoken::cuda {

OpTable make_op_table(const KernelModule& module, int device) {
  OpTable table;
  add_prefill_ops(table, module, device);  // before the exact ones: these take only what may be rounded to BF16
  add_moe_prefill_ops(table, module);
  add_attention_prefill_ops(table, module);
  add_delta_chunk_ops(table, module);
  add_small_ops(table, module);
  add_stream_ops(table, module);
  add_stream_argmax_ops(table, module);
  gpu::add_linear_ops(table, module);
  add_moe_route_ops(table, module);
  add_moe_expert_ops(table, module, ExpertFormats::kBF16AndNvfp4);
  gpu::add_moe_ops(table, module);
  add_moe_expert_ops(table, module, ExpertFormats::kFp8);  // the exact ones are faster
  add_abs_max_ops(table, module);
  gpu::add_quantize_ops(table, module);
  gpu::add_sampling_ops(table, module);
  gpu::add_sample_ops(table, module);
  gpu::add_norm_ops(table, module);
  add_attention_split_ops(table, module);
  gpu::add_attention_ops(table, module);
  gpu::add_whole_head_rule(table, module, "cluster", "gated_delta_rule_cluster", gpu::kColumnBlocks);
  gpu::add_delta_net_ops(table, module);
  add_linear_group_parts(table);
  add_moe_block_ops(table, module);
  add_moe_block_parts(table);
  return table;
}

}  // namespace foretoken::cuda
