// linear_argmax. Either way a logit has the bits of Linear: small weights go through it and a search of its logits, others are
// streamed as it streams them, with the search as epilogue.
#include <algorithm>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/ops/stream_kernels.h"
#include "backends/cuda/ops/weight_size.h"
#include "backends/ops.h"
#include "core/ops/linear.h"

namespace foretoken::cuda {
namespace {

using gpu::extent;

/// Work groups of a launch, and epilogues of each, at most: the workspace is asked for before the device is known.
constexpr uint32_t kMaxSearchers = 256;
constexpr uint32_t kMaxEpilogues = 4;

size_t search_workspace_bytes(const LinearArgmax& op) {
  return size_t{extent(op.x, 0)} * kMaxSearchers * kMaxEpilogues * (2 * sizeof(float) + sizeof(int32_t));
}

void launch_search(CommandList& cmd, const LinearArgmax& op, const StreamKernels<StreamArgmaxParams>& kernels,
                   const Kernel<gpu::LinearArgmaxCombineParams>& combine) {
  StreamPlan plan = kernels.plan(op.w.format, op.x, cmd.capabilities());
  plan.grid.x = std::min(plan.grid.x, kMaxSearchers);
  StreamArgmaxParams params{.stream = stream_params(plan, op.x),
                            .part_max = checked_workspace("linear_argmax", op.workspace, search_workspace_bytes(op)),
                            .part_id = 0,
                            .part_sum = 0,
                            .num_parts = plan.grid.x * plan.shape.epilogues,
                            .reserved = 0};
  const uint64_t part_bytes = uint64_t{params.num_parts} * extent(op.x, 0) * sizeof(float);
  params.part_id = params.part_max + part_bytes;
  if (!op.logprobs.is_absent()) params.part_sum = params.part_id + part_bytes;
  params.stream.out_features = static_cast<uint32_t>(op.w.out_features());
  params.stream.part[0] = {
      .weight = gpu::weight_params(op.w), .out = 0, .out_stride = 0, .end = params.stream.out_features, .out_is_bf16 = 0};
  const auto accesses = accesses_of(op);
  kernels.kernel(op.w.format, plan)(cmd, plan.grid, params, accesses);
  const gpu::LinearArgmaxCombineParams combine_params{.part_max = params.part_max,
                                                      .part_id = params.part_id,
                                                      .part_sum = params.part_sum,
                                                      .token_map = op.token_map.address(),
                                                      .token_ids = op.token_ids.address(),
                                                      .logprobs = op.logprobs.address(),
                                                      .num_parts = params.num_parts,
                                                      .reserved = 0};
  combine(cmd, Grid{extent(op.x, 0)}, combine_params, accesses);
}

size_t logits_bytes(const LinearArgmax& op) {
  return size_t{extent(op.x, 0)} * static_cast<size_t>(op.w.out_features()) * sizeof(float);
}

void launch_through_logits(CommandList& cmd, const LinearArgmax& op, const Kernel<gpu::LinearArgmaxLogitsParams>& search) {
  static_cast<void>(checked_workspace("linear_argmax", op.workspace, logits_bytes(op)));
  BufferView memory = op.workspace.view();
  memory.bytes = logits_bytes(op);
  const Tensor logits(memory, DType::kF32, {op.x.dim(0), op.w.out_features()});
  ops::dispatch(cmd, Linear{.x = op.x, .w = op.w, .out = logits, .workspace = {}});
  const gpu::LinearArgmaxLogitsParams params{.logits = logits.address(),
                                             .token_map = op.token_map.address(),
                                             .token_ids = op.token_ids.address(),
                                             .logprobs = op.logprobs.address(),
                                             .num_logits = static_cast<uint32_t>(op.w.out_features()),
                                             .reserved = 0};
  search(cmd, Grid{extent(op.x, 0)}, params, accesses_of(op));
}

}  // namespace

void add_stream_argmax_ops(OpTable& table, const KernelModule& module) {
  const auto search = module.resolve<gpu::LinearArgmaxLogitsParams>("linear_argmax_logits");
  table.add<LinearArgmax>(
      "logits", [search](CommandList& cmd, const LinearArgmax& op) { launch_through_logits(cmd, op, search); },
      [](const LinearArgmax& op) {
        if (op.x.dtype() != DType::kBF16) return Availability::no("for BF16 activations only");
        return is_streamed(op.w) ? Availability::no("for weights under 8 MiB") : Availability::yes();
      },
      logits_bytes);

  const auto combine = module.resolve<gpu::LinearArgmaxCombineParams>("linear_argmax_combine");
  const auto add_search = [&](const std::string& name, StreamMath math) {
    const StreamKernels<StreamArgmaxParams> kernels(module, "stream_argmax", math);
    table.add<LinearArgmax>(
        name, [kernels, combine](CommandList& cmd, const LinearArgmax& op) { launch_search(cmd, op, kernels, combine); },
        [kernels](const LinearArgmax& op) { return kernels.accepts(op.w, op.x); }, search_workspace_bytes);
  };
  add_search("block-scaled", StreamMath::kBlockScaled);
  add_search("stream", StreamMath::kDecoded);
}

}  // namespace foretoken::cuda
