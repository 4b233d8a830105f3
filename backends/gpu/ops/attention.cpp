// qk_norm_rope_cache, gated_attention.
#include <algorithm>

#include "backends/gpu/attention_params.h"
#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/norm_params.h"
#include "backends/gpu/ops/operands.h"
#include "core/ops/gated_attention.h"
#include "core/ops/rope.h"

namespace foretoken::gpu {
namespace {

/// Up to this many rows, work groups share the context of a sequence; above it there are row groups enough, and partial results
/// of every split would take too much memory.
constexpr uint32_t kMaxSplitRows = 16;

CacheFormat cache_format(const Tensor& cache) {
  switch (cache.dtype()) {
    case DType::kBF16: return CacheFormat::kBF16;
    case DType::kE4M3: return CacheFormat::kE4M3;
    default: return CacheFormat::kF32;
  }
}

bool splits_context(const GatedAttention& op) { return extent(op.q, 0) <= kMaxSplitRows; }

uint32_t max_splits(const GatedAttention& op) { return splits_for(static_cast<uint64_t>(op.max_seq_len)); }

/// A partial result of a query over a split: its mixed values, then in a part of their own its maximum and sum.
size_t partial_bytes(const GatedAttention& op, uint32_t rows) {
  return size_t{rows} * extent(op.q, 1) * max_splits(op) * (extent(op.q, 2) + 2) * sizeof(float);
}

/// What this many rows or fewer need: few rows split the context, many do not.
size_t attention_workspace_bytes(const GatedAttention& op) { return partial_bytes(op, std::min(extent(op.q, 0), kMaxSplitRows)); }

GatedAttentionParams attention_params(const GatedAttention& op) {
  const uint32_t rows = extent(op.q, 0);
  const uint32_t splits = max_splits(op);
  const uint64_t partial =
      splits_context(op) ? checked_workspace("gated_attention", op.workspace, attention_workspace_bytes(op)) : 0;
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
          .partial = partial,
          .partial_max = partial + uint64_t{rows} * extent(op.q, 1) * splits * extent(op.q, 2) * sizeof(float),
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
          .num_splits = splits,
          .num_row_groups = ceil_div(rows, kAttentionRows),
          .max_seq_len = static_cast<uint32_t>(op.max_seq_len),
          .scale = op.scale,
          .cache_format = cache_format(op.k_cache),
          .q_is_bf16 = is_bf16(op.q),
          .q_gate_is_bf16 = is_bf16(op.q_gate),
          .out_is_bf16 = is_bf16(op.out)};
}

void add_gated_attention(OpTable& table, const KernelModule& module) {
  table.add<GatedAttention>(
      "gpu",
      [split = module.resolve<GatedAttentionParams>("gated_attention_split"),
       combine = module.resolve<GatedAttentionParams>("gated_attention_combine"),
       rows = module.resolve<GatedAttentionParams>("gated_attention_rows")](CommandList& cmd, const GatedAttention& op) {
        const GatedAttentionParams params = attention_params(op);
        const std::vector<Access> accesses = accesses_of(op);
        if (splits_context(op)) {
          split(cmd, Grid{params.num_splits, params.num_key_heads, params.num_sequences * params.num_row_groups}, params,
                accesses);
          combine(cmd, Grid{params.num_query_heads, extent(op.q, 0)}, params, accesses);
        } else {
          rows(cmd, Grid{params.num_row_groups, params.num_key_heads, params.num_sequences}, params, accesses);
        }
      },
      [](const GatedAttention& op) {
        if (op.k_cache.dtype() != op.v_cache.dtype()) return Availability::no("k_cache and v_cache have one dtype");
        return dim_at_most(op.q, 2, kMaxAttentionHeadDim, "heads");
      },
      attention_workspace_bytes);
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
                .q_is_bf16 = op.q ? is_bf16(op.q) : 0U,
                .k_is_bf16 = is_bf16(op.k),
                .v_is_bf16 = is_bf16(op.v),
                .reserved = 0},
               accesses_of(op));
      },
      [](const QkNormRopeCache& op) {
        if (op.k_cache.dtype() != op.v_cache.dtype()) return Availability::no("k_cache and v_cache have one dtype");
        if (op.q && op.q.dtype() != op.q_gate.dtype()) return Availability::no("q_gate and q have one dtype");
        return dim_at_most(op.k, 2, kMaxHeadDim, "heads");
      });
}

}  // namespace

void add_attention_ops(OpTable& table, const KernelModule& module) {
  add_qk_norm_rope_cache(table, module);
  add_gated_attention(table, module);
}

}  // namespace foretoken::gpu
