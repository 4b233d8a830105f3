// qk_norm_rope_cache, gated_attention.
#include "backends/gpu/ops/attention.h"

#include <algorithm>
#include <vector>

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/norm_params.h"
#include "backends/gpu/ops/operands.h"
#include "core/ops/gated_attention.h"
#include "core/ops/rope.h"

namespace foretoken::gpu {
namespace {

uint32_t max_splits(const GatedAttention& op) { return splits_for(static_cast<uint64_t>(op.max_seq_len)); }

GatedAttentionParams attention_params(const GatedAttention& op) {
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
          .partial = 0,
          .partial_max = 0,
          .q_stride = stride(op.q),
          .q_gate_stride = stride(op.q_gate),
          .out_stride = stride(op.out),
          .block_table_stride = stride(op.block_table),
          .num_sequences = extent(op.seq_lens, 0),
          .num_query_heads = extent(op.q, 1),
          .num_key_heads = extent(op.k_cache, 2),
          .head_dim = extent(op.q, 2),
          .num_blocks = extent(op.k_cache, 0),
          .block_size = extent(op.k_cache, 1),
          .num_splits = max_splits(op),
          .first_row = 0,
          .max_seq_len = static_cast<uint32_t>(op.max_seq_len),
          .scale = op.scale,
          .cache_format = cache_format(op.k_cache),
          .q_is_bf16 = is_bf16(op.q),
          .q_gate_is_bf16 = is_bf16(op.q_gate),
          .out_is_bf16 = is_bf16(op.out)};
}

/// Queries, heads of rows, that are split at a time.
size_t queries_of(const GatedAttention& op) { return size_t{std::min(extent(op.q, 0), kAttentionRows)} * extent(op.q, 1); }

/// Few rows split the context; many rows, of which there are groups enough, take the splits in turn.
void add_gated_attention(OpTable& table, const KernelModule& module) {
  const SplitLaunch split = [kernel = module.resolve<GatedAttentionParams>("gated_attention_split")](
                                CommandList& cmd, const GatedAttention& op, const GatedAttentionParams& params) {
    kernel(cmd, Grid{params.num_splits, params.num_key_heads, params.num_sequences}, params, accesses_of(op));
  };
  table.add<GatedAttention>(
      "gpu",
      [split, combine = module.resolve<GatedAttentionParams>("gated_attention_combine"),
       rows = module.resolve<GatedAttentionParams>("gated_attention_rows")](CommandList& cmd, const GatedAttention& op) {
        if (extent(op.q, 0) <= kAttentionRows) {
          attend_by_splits(cmd, op, split, combine);
          return;
        }
        const GatedAttentionParams params = attention_params(op);
        rows(cmd, Grid{ceil_div(extent(op.q, 0), kAttentionRows), params.num_key_heads, params.num_sequences}, params,
             accesses_of(op));
      },
      [](const GatedAttention& op) {
        if (op.k_cache.dtype() != op.v_cache.dtype()) return Availability::no("k_cache and v_cache have one dtype");
        return dim_at_most(op.q, 2, kMaxAttentionHeadDim, "heads");
      },
      split_workspace_bytes);
}

void add_qk_norm_rope_cache(OpTable& table, const KernelModule& module) {
  table.add<QkNormRopeCache>(
      "gpu",
      [kernel = module.resolve<QkNormRopeCacheParams>("qk_norm_rope_cache")](CommandList& cmd, const QkNormRopeCache& op) {
        const uint32_t num_query_heads = op.q_gate ? extent(op.q_gate, 1) : 0;
        kernel(cmd, Grid{num_query_heads + extent(op.k, 1), extent(op.k, 0)},
               {.q_gate = op.q_gate.address(),
                .k = op.k.address(),
                .v = op.v.address(),
                .q_norm = op.q_norm.address(),
                .k_norm = op.k_norm.address(),
                .cos_sin = op.cos_sin.address(),
                .slot_mapping = op.slot_mapping.address(),
                .q = op.q.address(),
                .k_cache = op.k_cache.address(),
                .v_cache = op.v_cache.address(),
                .k_scale = op.k_scale.address(),
                .v_scale = op.v_scale.address(),
                .q_gate_stride = stride(op.q_gate),
                .k_stride = stride(op.k),
                .v_stride = stride(op.v),
                .num_slots = op.k_cache.dim(0) * op.k_cache.dim(1),
                .num_query_heads = num_query_heads,
                .num_key_heads = extent(op.k, 1),
                .head_dim = extent(op.k, 2),
                .rotary_dim = extent(op.cos_sin, 1),
                .eps = op.eps,
                .cache_format = cache_format(op.k_cache),
                .q_gate_is_bf16 = is_bf16(op.q_gate),
                .q_is_bf16 = is_bf16(op.q),
                .k_is_bf16 = is_bf16(op.k),
                .v_is_bf16 = is_bf16(op.v)},
               accesses_of(op));
      },
      [](const QkNormRopeCache& op) {
        if (op.k_cache.dtype() != op.v_cache.dtype()) return Availability::no("k_cache and v_cache have one dtype");
        return dim_at_most(op.k, 2, kMaxHeadDim, "heads");
      });
}

}  // namespace

CacheFormat cache_format(const Tensor& cache) {
  switch (cache.dtype()) {
    case DType::kBF16: return CacheFormat::kBF16;
    case DType::kE4M3: return CacheFormat::kE4M3;
    default: return CacheFormat::kF32;
  }
}

size_t split_workspace_bytes(const GatedAttention& op) {
  return queries_of(op) * max_splits(op) * (extent(op.q, 2) + 2) * sizeof(float);
}

void attend_by_splits(CommandList& cmd, const GatedAttention& op, const SplitLaunch& split,
                      const Kernel<GatedAttentionParams>& combine) {
  const std::vector<Access> accesses = accesses_of(op);
  GatedAttentionParams params = attention_params(op);
  params.partial_max = checked_workspace("gated_attention", op.workspace, split_workspace_bytes(op));
  params.partial = params.partial_max + queries_of(op) * params.num_splits * 2 * sizeof(float);
  const uint32_t rows = extent(op.q, 0);
  for (; params.first_row < rows; params.first_row += kAttentionRows) {
    split(cmd, op, params);
    combine(cmd, Grid{params.num_query_heads, std::min(kAttentionRows, rows - params.first_row)}, params, accesses);
  }
}

void add_attention_ops(OpTable& table, const KernelModule& module) {
  add_qk_norm_rope_cache(table, module);
  add_gated_attention(table, module);
}

}  // namespace foretoken::gpu
