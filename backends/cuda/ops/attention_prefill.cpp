// gated_attention for prefill, on tensor cores.
#include <string>
#include <vector>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/attention_prefill_params.h"
#include "backends/gpu/ops/attention.h"
#include "backends/gpu/ops/operands.h"
#include "core/ops/gated_attention.h"

namespace foretoken::cuda {
namespace {

using gpu::cache_format;
using gpu::extent;
using gpu::is_bf16;
using gpu::stride;

/// Up to this many rows the exact kernels have work groups enough only where they share the context.
constexpr int64_t kFewRows = 32;

/// Whether vectors of 16 bytes, of caches of one byte 8, can be read and written.
bool is_aligned(const Tensor& tensor) {
  const uint64_t bytes = dtype_bits(tensor.dtype()) / 8;
  return tensor.address() % 16 == 0 && stride(tensor) * bytes % 16 == 0;
}

Availability accepts(const GatedAttention& op) {
  if (op.precision != LinearPrecision::kBF16) return Availability::no("for prefill only");
  if (op.q.dim(0) < kFewRows) return Availability::no("for " + std::to_string(kFewRows) + " rows or more");
  if (op.k_cache.dtype() != op.v_cache.dtype()) return Availability::no("k_cache and v_cache have one dtype");
  for (const Tensor* tensor : {&op.q, &op.q_gate, &op.k_cache, &op.v_cache, &op.out}) {
    if (!is_aligned(*tensor)) return Availability::no("rows that begin at multiples of 16 bytes");
  }
  return Availability::yes();
}

AttentionPrefillParams attention_params(const GatedAttention& op) {
  return {.q = op.q.address(),
          .q_gate = op.q_gate.address(),
          .k_cache = op.k_cache.address(),
          .v_cache = op.v_cache.address(),
          .k_scale = op.k_scale.address(),
          .v_scale = op.v_scale.address(),
          .block_table = op.block_table.address(),
          .seq_lens = op.seq_lens.address(),
          .query_start_loc = op.query_start_loc.address(),
          .out = op.out.address(),
          .q_stride = stride(op.q),
          .q_gate_stride = stride(op.q_gate),
          .out_stride = stride(op.out),
          .block_table_stride = stride(op.block_table),
          .num_query_heads = extent(op.q, 1),
          .num_key_heads = extent(op.k_cache, 2),
          .num_blocks = extent(op.k_cache, 0),
          .block_size = extent(op.k_cache, 1),
          .max_seq_len = static_cast<uint32_t>(op.max_seq_len),
          .scale = op.scale,
          .cache_format = cache_format(op.k_cache),
          .q_is_bf16 = is_bf16(op.q),
          .q_gate_is_bf16 = is_bf16(op.q_gate),
          .out_is_bf16 = is_bf16(op.out)};
}

/// One implementation for each size of heads that there is a kernel for.
void add_head_dim(OpTable& table, const KernelModule& module, uint32_t head_dim) {
  const std::string suffix = "d" + std::to_string(head_dim);
  table.add<GatedAttention>(
      "mma-" + suffix,
      [kernel = module.resolve<AttentionPrefillParams>("attention_prefill_" + suffix), head_dim](CommandList& cmd,
                                                                                                 const GatedAttention& op) {
        const AttentionPrefillParams params = attention_params(op);
        const uint32_t heads = params.num_query_heads / params.num_key_heads;
        kernel(cmd,
               Grid{.x = gpu::ceil_div(extent(op.q, 0) * heads, kPrefillQueries),
                    .y = params.num_key_heads,
                    .z = extent(op.seq_lens, 0),
                    .group_memory = attention_prefill_memory(head_dim)},
               params, accesses_of(op));
      },
      [head_dim](const GatedAttention& op) {
        if (extent(op.q, 2) != head_dim) return Availability::no("heads of " + std::to_string(head_dim) + " elements");
        return accepts(op);
      });
}

}  // namespace

void add_attention_prefill_ops(OpTable& table, const KernelModule& module) {
  for (const uint32_t head_dim : {256, 128, 64}) add_head_dim(table, module, head_dim);
}

}  // namespace foretoken::cuda
