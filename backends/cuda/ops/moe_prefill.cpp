// moe_experts_up and moe_experts_down for prefill, on tensor cores.
#include <algorithm>
#include <string>
#include <vector>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/moe_prefill_params.h"
#include "backends/gpu/ops/moe.h"
#include "backends/gpu/ops/weights.h"

namespace foretoken::cuda {
namespace {

using gpu::ceil_div;
using gpu::extent;
using gpu::MoeExpertsParams;

/// Up to this many rows of a call the kernels that read a weight for a few rows are faster.
constexpr int64_t kFewRows = 16;
/// Pairs per expert, on average, from which on large tiles are filled well enough.
constexpr uint32_t kManyPairs = 48;

Availability accepts(LinearPrecision precision, const LinearWeight& w, const Tensor& x, int64_t num_rows) {
  if (precision != LinearPrecision::kBF16) return Availability::no("for prefill only");
  if (num_rows < kFewRows) return Availability::no("for " + std::to_string(kFewRows) + " rows or more");
  if (x.dtype() != DType::kBF16) return Availability::no("BF16 activations");
  if (w.format == WeightFormat::kF32) return Availability::no("F32 weights would be rounded");
  if (w.in_features() % kPrefillDepth != 0) return Availability::no("rows of a multiple of 64 weights");
  if (const Availability aligned = gpu::has_whole_vectors(w, x); !aligned) return aligned;
  if (x.dim(0) * x.row_stride() >= int64_t{1} << 31) return Availability::no("activations of at most 4 GiB");
  return Availability::yes();
}

/// One of the two products.
class ExpertProducts {
 public:
  ExpertProducts(const KernelModule& module, const std::string& name, uint32_t gates)
      : few_(module, name + "_"), many_(module.resolve<MoeExpertsParams>(name + "_bf16_many")), gates_(gates) {}

  /// `params` lacks what follows from the weight.
  void launch(CommandList& cmd, const LinearWeight& w, uint32_t num_pairs, MoeExpertsParams params,
              std::span<const Access> accesses) const {
    params.weight = gpu::weight_params(w);
    params.num_experts = extent(w.weight, 0);
    const bool is_many = w.format == WeightFormat::kBF16 && num_pairs >= kManyPairs * params.num_experts;
    const PrefillTile& tile = is_many ? kManyPairsTile : kFewPairsTile;
    const Grid grid{.x = ceil_div(params.out_features, tile.columns / gates_),
                    .y = std::min(params.num_experts, num_pairs),
                    .z = 1,
                    .group_memory = tile.group_memory};
    (is_many ? many_ : few_.get(w.format))(cmd, grid, params, accesses);
  }

 private:
  gpu::FormatKernels<MoeExpertsParams> few_;  // pairs of an expert
  Kernel<MoeExpertsParams> many_;             // BF16 only
  uint32_t gates_;
};

void launch_down(CommandList& cmd, const MoeExpertsDown& op, const ExpertProducts& products,
                 const Kernel<gpu::MoeJoinParams>& join) {
  const std::vector<Access> accesses = accesses_of(op);
  const uint64_t pairs = checked_workspace("moe_experts_down", op.workspace, gpu::products_bytes(op));
  products.launch(cmd, op.down, extent(op.expert_pairs, 0), gpu::experts_down_params(op, pairs), accesses);
  gpu::launch_join(cmd, op, pairs, join, accesses);
}

}  // namespace

void add_moe_prefill_ops(OpTable& table, const KernelModule& module) {
  table.add<MoeExpertsUp>(
      "mma",
      [products = ExpertProducts(module, "moe_prefill_up", 2)](CommandList& cmd, const MoeExpertsUp& op) {
        products.launch(cmd, op.gate_up, extent(op.expert_pairs, 0), gpu::experts_up_params(op), accesses_of(op));
      },
      [](const MoeExpertsUp& op) { return accepts(op.precision, op.gate_up, op.x, op.x.dim(0)); });

  table.add<MoeExpertsDown>(
      "mma",
      [products = ExpertProducts(module, "moe_prefill_down", 1), join = module.resolve<gpu::MoeJoinParams>("moe_join")](
          CommandList& cmd, const MoeExpertsDown& op) { launch_down(cmd, op, products, join); },
      [](const MoeExpertsDown& op) {
        const Availability shared = gpu::has_whole_shared(op);
        return shared ? accepts(op.precision, op.down, gpu::pairs_of(op), op.out.dim(0)) : shared;
      },
      gpu::products_bytes);
}

}  // namespace foretoken::cuda
