// qk_norm_rope_cache, gated_attention.
#include <algorithm>
#include <string>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/attention_params.h"
#include "backends/cpu/kernels/norm_params.h"
#include "backends/cpu/kernels/prefill_amx_params.h"
#include "backends/cpu/ops/operands.h"
#include "core/error.h"
#include "core/ops/gated_attention.h"
#include "core/ops/rope.h"

namespace foretoken::cpu {
namespace {

/// Up to this many rows, threads share the context of a sequence; above it there are row groups enough for them, and partial
/// results of every split would take too much memory.
constexpr size_t kMaxSplitRows = 16;
/// Items per sequence and key head that share its splits: enough for the threads of a large machine.
constexpr size_t kMaxSplitWorkers = 32;

CacheDType cache_dtype(const Tensor& cache) {
  switch (cache.dtype()) {
    case DType::kBF16: return CacheDType::kBF16;
    case DType::kE4M3: return CacheDType::kE4M3;
    default: return CacheDType::kF32;  // by the schema, nothing else
  }
}

size_t heads_of_key_head(const GatedAttention& op) { return dimension(op.q, 1) / dimension(op.k_cache, 2); }

size_t max_splits(const GatedAttention& op) { return ceil_div(static_cast<size_t>(op.max_seq_len), kAttentionSplit); }

bool splits_context(const GatedAttention& op) { return dimension(op.q, 0) <= kMaxSplitRows && max_splits(op) > 1; }

size_t partial_bytes(const GatedAttention& op, size_t rows, size_t splits) {
  return rows * splits * dimension(op.q, 1) * attention_partial_floats(dimension(op.q, 2)) * sizeof(float);
}

size_t needed_workspace_bytes(const GatedAttention& op) {
  return partial_bytes(op, dimension(op.q, 0), splits_context(op) ? max_splits(op) : 1);
}

/// What this many rows or fewer need: few rows split the context, many do not.
size_t attention_workspace_bytes(const GatedAttention& op) {
  const size_t rows = dimension(op.q, 0);
  return std::max(partial_bytes(op, rows, 1), partial_bytes(op, std::min<size_t>(rows, kMaxSplitRows), max_splits(op)));
}

/// Groups that this many rows make at most, where each sequence's last may have fewer than `size`.
size_t max_groups(const GatedAttention& op, size_t size) {
  const size_t rows = dimension(op.q, 0);
  return std::min(rows, ceil_div(rows, size) + dimension(op.seq_lens, 0));
}

void require_workspace(const GatedAttention& op, size_t bytes) {
  const size_t got = op.workspace ? op.workspace.view().bytes : 0;
  if (got < bytes) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "gated_attention: workspace",
                                              .expected = std::to_string(bytes) + " bytes",
                                              .got = std::to_string(got) + " bytes"});
  }
}

GatedAttentionParams attention_params(const GatedAttention& op) {
  const bool split = splits_context(op);
  require_workspace(op, needed_workspace_bytes(op));
  return {.q = pointer<const float>(op.q),
          .q_gate = pointer<const float>(op.q_gate),
          .k_cache = pointer<const void>(op.k_cache),
          .v_cache = pointer<const void>(op.v_cache),
          .k_scale = pointer<const float>(op.k_scale),
          .v_scale = pointer<const float>(op.v_scale),
          .block_table = pointer<const int32_t>(op.block_table),
          .seq_lens = pointer<const int32_t>(op.seq_lens),
          .query_start_loc = pointer<const int32_t>(op.query_start_loc),
          .out = pointer<float>(op.out),
          .partials = pointer<float>(op.workspace),
          .q_stride = stride(op.q),
          .q_gate_stride = stride(op.q_gate),
          .out_stride = stride(op.out),
          .block_table_stride = stride(op.block_table),
          .num_sequences = dimension(op.seq_lens, 0),
          .num_query_heads = dimension(op.q, 1),
          .num_key_heads = dimension(op.k_cache, 2),
          .head_dim = dimension(op.q, 2),
          .num_blocks = dimension(op.k_cache, 0),
          .block_size = dimension(op.k_cache, 1),
          .max_seq_len = static_cast<size_t>(op.max_seq_len),
          .num_splits = split ? max_splits(op) : 1,
          .num_workers = split ? std::min(max_splits(op), kMaxSplitWorkers) : 1,
          .scale = op.scale,
          .cache_dtype = cache_dtype(op.k_cache)};
}

Availability head_dim_at_most(const Tensor& heads, size_t axis, size_t limit) {
  if (dimension(heads, axis) <= limit) return Availability::yes();
  return Availability::no("heads of at most " + std::to_string(limit) + " elements");
}

Availability accepts_attention(const GatedAttention& op) {
  const Availability fits = head_dim_at_most(op.q, 2, kMaxAttentionHeadDim);
  return fits ? activations_are_f32({&op.q, &op.q_gate, &op.out}) : fits;
}

Availability accepts_amx_attention(const Kernel<GatedAttentionParams>& kernel, const GatedAttention& op) {
  if (op.precision != LinearPrecision::kBF16) return Availability::no("the call asks for exact activations");
  if (!kernel) return Availability::no("this CPU has no AMX-BF16 tiles, or a lower set is forced");
  if (dimension(op.q, 0) <= kMaxSplitRows) return Availability::no("for more than " + std::to_string(kMaxSplitRows) + " rows");
  if (dimension(op.q, 2) > kAmxAttentionDim || dimension(op.q, 2) % kAmxDepth != 0) {
    return Availability::no("heads in multiples of 32 elements, up to " + std::to_string(kAmxAttentionDim));
  }
  if (heads_of_key_head(op) > kAmxAttentionPairs) {
    return Availability::no("key heads of at most " + std::to_string(kAmxAttentionPairs) + " query heads");
  }
  return activations_are_f32({&op.q, &op.q_gate, &op.out});
}

Availability accepts_qk_norm_rope_cache(const QkNormRopeCache& op) {
  const Availability fits = head_dim_at_most(op.k, 2, kMaxHeadDim);
  return fits ? activations_are_f32({&op.q_gate, &op.k, &op.v, &op.q}) : fits;
}

void add_qk_norm_rope_cache(OpTable& table, const KernelModule& module) {
  table.add<QkNormRopeCache>(
      "cpu",
      [kernel = module.resolve<QkNormRopeCacheParams>("qk_norm_rope_cache")](CommandList& cmd, const QkNormRopeCache& op) {
        const size_t num_query_heads = op.q_gate ? dimension(op.q_gate, 1) : 0;
        kernel(cmd, items(dimension(op.k, 0) * (num_query_heads + dimension(op.k, 1))),
               {.q_gate = pointer<const float>(op.q_gate),
                .k = pointer<const float>(op.k),
                .v = pointer<const float>(op.v),
                .q_norm = pointer<const float>(op.q_norm),
                .k_norm = pointer<const float>(op.k_norm),
                .cos_sin = pointer<const float>(op.cos_sin),
                .slot_mapping = pointer<const int64_t>(op.slot_mapping),
                .q = pointer<float>(op.q),
                .k_cache = pointer<void>(op.k_cache),
                .v_cache = pointer<void>(op.v_cache),
                .k_scale = pointer<const float>(op.k_scale),
                .v_scale = pointer<const float>(op.v_scale),
                .q_gate_stride = op.q_gate ? stride(op.q_gate) : 0,
                .k_stride = stride(op.k),
                .v_stride = stride(op.v),
                .num_query_heads = num_query_heads,
                .num_key_heads = dimension(op.k, 1),
                .head_dim = dimension(op.k, 2),
                .rotary_dim = dimension(op.cos_sin, 1),
                .num_slots = dimension(op.k_cache, 0) * dimension(op.k_cache, 1),
                .eps = op.eps,
                .cache_dtype = cache_dtype(op.k_cache)},
               accesses_of(op));
      },
      accepts_qk_norm_rope_cache);
}

}  // namespace

void add_attention_ops(OpTable& table, const KernelModule& module) {
  add_qk_norm_rope_cache(table, module);
  const auto amx = module.resolve_optional<GatedAttentionParams>("amx_gated_attention");
  table.add<GatedAttention>(
      "amx",
      [amx](CommandList& cmd, const GatedAttention& op) {
        const size_t groups = max_groups(op, amx_attention_rows(heads_of_key_head(op)));
        amx(cmd, items(groups * dimension(op.k_cache, 2)), attention_params(op), accesses_of(op));
      },
      [amx](const GatedAttention& op) { return accepts_amx_attention(amx, op); },
      attention_workspace_bytes);  // for calls with fewer rows in the same workspace; the tiles need none
  table.add<GatedAttention>(
      "cpu",
      [split = module.resolve<GatedAttentionParams>("gated_attention_split"),
       combine = module.resolve<GatedAttentionParams>("gated_attention_combine"),
       rows = module.resolve<GatedAttentionParams>("gated_attention_rows")](CommandList& cmd, const GatedAttention& op) {
        const GatedAttentionParams params = attention_params(op);
        if (splits_context(op)) {
          split(cmd, items(params.num_sequences * params.num_key_heads * params.num_workers), params, accesses_of(op));
          combine(cmd, items(dimension(op.q, 0) * params.num_query_heads), params, accesses_of(op));
          return;
        }
        rows(cmd, items(max_groups(op, kAttentionRows) * params.num_key_heads), params, accesses_of(op));
      },
      accepts_attention, attention_workspace_bytes);
}

}  // namespace foretoken::cpu
