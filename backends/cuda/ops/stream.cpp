// linear, linear_group and linear_silu_mul over large weights, streamed through the multiprocessors (kernels/stream.cuh).
#include <cstdlib>
#include <string_view>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/ops/stream_kernels.h"
#include "backends/cuda/ops/weight_size.h"
#include "core/ops/linear.h"
#include "core/ops/linear_group.h"

namespace foretoken::cuda {
namespace {

StreamPart part_of(const LinearWeight& w, const Tensor& out, uint32_t rows_before) {
  return {.weight = gpu::weight_params(w),
          .out = out.address(),
          .out_stride = gpu::stride(out),
          .end = rows_before + static_cast<uint32_t>(w.out_features()),
          .out_is_bf16 = gpu::is_bf16(out)};
}

/// A group is one launch where Linear streams each of its weights, all of one format.
Availability accepts_group(const StreamKernels<StreamParams>& kernels, const LinearGroup& op) {
  for (size_t i = 0; i < op.num_projections(); ++i) {
    if (!is_streamed(op.w[i])) return Availability::no("for large weights only");
    if (op.w[i].format != op.w[0].format) return Availability::no("for weights of one format");
    if (const Availability one = kernels.accepts(op.w[i], op.x); !one) return one;
  }
  return Availability::yes();
}

void launch_group(CommandList& cmd, const LinearGroup& op, const StreamKernels<StreamParams>& kernels) {
  static_assert(LinearGroup::kMaxProjections <= kMaxParts);
  const StreamPlan plan = kernels.plan(op.w[0].format, op.x, cmd.capabilities());
  StreamParams params = stream_params(plan, op.x);
  for (size_t i = 0; i < op.num_projections(); ++i) {
    params.part[i] = part_of(op.w[i], op.out[i], params.out_features);
    params.out_features = params.part[i].end;
  }
  kernels.kernel(op.w[0].format, plan)(cmd, plan.grid, params, accesses_of(op));
}

void add_ops(OpTable& table, const KernelModule& module, const std::string& name, StreamMath math) {
  const StreamKernels<StreamParams> linear(module, "stream_linear", math);
  table.add<Linear>(
      name,
      [linear](CommandList& cmd, const Linear& op) {
        const StreamPlan plan = linear.plan(op.w.format, op.x, cmd.capabilities());
        StreamParams params = stream_params(plan, op.x);
        params.part[0] = part_of(op.w, op.out, 0);
        params.out_features = params.part[0].end;
        linear.kernel(op.w.format, plan)(cmd, plan.grid, params, accesses_of(op));
      },
      [linear](const Linear& op) { return linear.accepts(op.w, op.x); });

  table.add<LinearGroup>(
      name, [linear](CommandList& cmd, const LinearGroup& op) { launch_group(cmd, op, linear); },
      [linear](const LinearGroup& op) { return accepts_group(linear, op); });

  const StreamKernels<StreamParams> silu_mul(module, "stream_silu_mul", math);
  table.add<LinearSiluMul>(
      name,
      [silu_mul](CommandList& cmd, const LinearSiluMul& op) {
        const StreamPlan plan = silu_mul.plan(op.gate.format, op.x, cmd.capabilities());
        StreamParams params = stream_params(plan, op.x);
        params.part[0] = part_of(op.gate, op.out, 0);
        params.part[1] = part_of(op.up, op.out, 0);
        params.out_features = params.part[0].end;
        silu_mul.kernel(op.gate.format, plan)(cmd, plan.grid, params, accesses_of(op));
      },
      [silu_mul](const LinearSiluMul& op) {
        const Availability gate = silu_mul.accepts(op.gate, op.x);
        return gate ? silu_mul.accepts(op.up, op.x) : gate;
      });
}

}  // namespace

Availability block_scaled_wanted() {
  const char* value = std::getenv("FORETOKEN_CUDA_BLOCK_SCALED");
  if (value != nullptr && std::string_view(value) == "1") return Availability::yes();
  return Availability::no("no device has proved these kernels yet; FORETOKEN_CUDA_BLOCK_SCALED=1 uses them");
}

void add_stream_ops(OpTable& table, const KernelModule& module) {
  add_ops(table, module, "block-scaled", StreamMath::kBlockScaled);
  add_ops(table, module, "stream", StreamMath::kDecoded);
}

}  // namespace foretoken::cuda
