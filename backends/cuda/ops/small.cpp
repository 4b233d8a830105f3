// The linear operators over small weights with BF16 activations: latency kernels (kernels/small.cuh).
#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/ops/small_kernels.h"
#include "core/ops/linear_group.h"

namespace foretoken::cuda {
namespace {

void add_linear(OpTable& table, const SmallKernels& kernels) {
  table.add<Linear>(
      "small",
      [kernels](CommandList& cmd, const Linear& op) {
        SmallLaunch launch(op.x);
        launch.add(op.w, op.out);
        kernels.launch(cmd, launch, accesses_of(op));
      },
      [](const Linear& op) { return small_accepts(op.w, op.x); });
}

void add_linear_group(OpTable& table, const SmallKernels& kernels) {
  table.add<LinearGroup>(
      "small",
      [kernels](CommandList& cmd, const LinearGroup& op) {
        SmallLaunch launch(op.x);
        for (size_t i = 0; i < op.num_projections(); ++i) launch.add(op.w[i], op.out[i]);
        kernels.launch(cmd, launch, accesses_of(op));
      },
      [](const LinearGroup& op) {
        for (size_t i = 0; i < op.num_projections(); ++i) {
          if (op.w[i].format != op.w[0].format) return Availability::no("weights of one format");
          if (const Availability one = small_accepts(op.w[i], op.x); !one) return one;
        }
        return Availability::yes();
      });
}

void add_linear_silu_mul(OpTable& table, const SmallKernels& kernels) {
  table.add<LinearSiluMul>(
      "small",
      [kernels](CommandList& cmd, const LinearSiluMul& op) {
        SmallLaunch launch(op.x);
        launch.add_pair(op.gate, op.up, op.out);
        kernels.launch(cmd, launch, accesses_of(op));
      },
      [](const LinearSiluMul& op) {
        if (const Availability same = gpu::gate_and_up_agree(op); !same) return same;
        const Availability gate = small_accepts(op.gate, op.x);
        return gate ? small_accepts(op.up, op.x) : gate;
      });
}

}  // namespace

void add_small_ops(OpTable& table, const KernelModule& module) {
  const SmallKernels kernels(module);
  add_linear(table, kernels);
  add_linear_group(table, kernels);
  add_linear_silu_mul(table, kernels);
}

}  // namespace foretoken::cuda
