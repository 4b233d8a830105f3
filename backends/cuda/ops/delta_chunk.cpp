// gated_delta_rule for prefill, on tensor cores.
#include "backends/cuda/kernels/delta_chunk_params.h"

#include <string>
#include <vector>

#include "backends/cuda/cuda_ops.h"
#include "backends/gpu/ops/operands.h"
#include "core/ops/gated_delta_rule.h"

namespace foretoken::cuda {
namespace {

using gpu::extent;
using gpu::is_bf16;
using gpu::stride;

/// Fewer rows are faster one after another.
constexpr int64_t kFewRows = 16;

Availability accepts(const GatedDeltaRule& op) {
  if (op.precision != LinearPrecision::kBF16) return Availability::no("for prefill only");
  if (op.update != StateUpdate::kInPlace) return Availability::no("where the state advances");
  if (op.qkv.dim(0) < kFewRows) return Availability::no("for " + std::to_string(kFewRows) + " rows or more");
  if (op.state.dim(2) % 2 != 0 || op.state.dim(3) % 2 != 0 || op.state.address() % 8 != 0) {
    return Availability::no("heads of an even number of elements, states at multiples of 8 bytes");
  }
  return gpu::dim_at_most(op.state, 2, kDeltaChunkDim, "key heads");
}

/// The outputs in front of the gated norm, [T, nv, dv] F32.
size_t workspace_bytes(const GatedDeltaRule& op) {
  return op.z.is_absent() ? 0 : size_t{extent(op.out, 0)} * extent(op.out, 1) * extent(op.out, 2) * sizeof(float);
}

DeltaChunkParams chunk_params(const GatedDeltaRule& op) {
  return {.qkv = op.qkv.address(),
          .b = op.b.address(),
          .a = op.a.address(),
          .A_log = op.A_log.address(),
          .dt_bias = op.dt_bias.address(),
          .query_start_loc = op.query_start_loc.address(),
          .state_slots = op.state_slots.address(),
          .num_commit = op.num_commit.address(),
          .state = op.state.address(),
          .key_record = op.key_record.address(),
          .delta_record = op.delta_record.address(),
          .decay_record = op.decay_record.address(),
          .out = op.out.address(),
          .qkv_stride = stride(op.qkv),
          .b_stride = stride(op.b),
          .a_stride = stride(op.a),
          .out_stride = stride(op.out),
          .num_key_heads = static_cast<uint32_t>(op.num_key_heads()),
          .num_value_heads = extent(op.state, 1),
          .key_dim = extent(op.state, 2),
          .value_dim = extent(op.state, 3),
          .num_slots = extent(op.state, 0),
          .record_rows = op.key_record.is_absent() ? 0 : extent(op.key_record, 1),
          .qkv_is_bf16 = is_bf16(op.qkv),
          .b_is_bf16 = is_bf16(op.b),
          .a_is_bf16 = is_bf16(op.a),
          .out_is_bf16 = is_bf16(op.out)};
}

void launch_norm(CommandList& cmd, const GatedDeltaRule& op, uint64_t x, const Kernel<DeltaNormParams>& norm,
                 std::span<const Access> accesses) {
  const uint32_t heads = extent(op.out, 1);
  norm(cmd, Grid{gpu::ceil_div(heads, kDeltaNormThreads / 32), extent(op.out, 0)},
       {.x = x,
        .z = op.z.address(),
        .norm = op.norm.address(),
        .query_start_loc = op.query_start_loc.address(),
        .out = op.out.address(),
        .z_stride = stride(op.z),
        .out_stride = stride(op.out),
        .num_sequences = extent(op.state_slots, 0),
        .num_value_heads = heads,
        .value_dim = extent(op.out, 2),
        .eps = op.eps,
        .z_is_bf16 = is_bf16(op.z),
        .out_is_bf16 = is_bf16(op.out)},
       accesses);
}

}  // namespace

void add_delta_chunk_ops(OpTable& table, const KernelModule& module) {
  table.add<GatedDeltaRule>(
      "chunk",
      [chunk = module.resolve<DeltaChunkParams>("delta_chunk"), norm = module.resolve<DeltaNormParams>("delta_norm")](
          CommandList& cmd, const GatedDeltaRule& op) {
        const std::vector<Access> accesses = accesses_of(op);
        DeltaChunkParams params = chunk_params(op);
        if (!op.z.is_absent()) {
          params.out = checked_workspace("gated_delta_rule", op.workspace, workspace_bytes(op));
          params.out_stride = uint64_t{extent(op.out, 1)} * extent(op.out, 2);
          params.out_is_bf16 = 0;
        }
        const Grid grid{.x = gpu::ceil_div(params.value_dim, kDeltaChunkColumns),
                        .y = params.num_value_heads,
                        .z = extent(op.state_slots, 0),
                        .group_memory = sizeof(DeltaChunkMemory)};
        chunk(cmd, grid, params, accesses);
        if (!op.z.is_absent()) launch_norm(cmd, op, params.out, norm, accesses);
      },
      accepts, workspace_bytes);
}

}  // namespace foretoken::cuda
