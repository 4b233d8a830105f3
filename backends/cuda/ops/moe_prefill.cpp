// moe_experts_up and moe_experts_down for prefill, on tensor cores.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/moe_prefill_params.h"
#include "backends/gpu/moe_params.h"
#include "backends/gpu/ops/weights.h"
#include "core/ops/moe.h"

namespace foretoken::cuda {
namespace {

using gpu::ceil_div;
using gpu::extent;
using gpu::is_bf16;
using gpu::MoeExpertsParams;
using gpu::stride;

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
  if (!gpu::is_aligned(w, x)) {
    return Availability::no("operands must begin and rows must follow each other at multiples of 16 bytes");
  }
  if (x.dim(0) * x.row_stride() >= int64_t{1} << 31) return Availability::no("activations of at most 4 GiB");
  return Availability::yes();
}

/// One of the two products.
class ExpertProducts {
 public:
  ExpertProducts(const KernelModule& module, const std::string& name, uint32_t gates)
      : many_(module.resolve<MoeExpertsParams>(name + "_bf16_many")), gates_(gates) {
    for (const WeightFormat format :
         {WeightFormat::kBF16, WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
      few_[static_cast<size_t>(format)] = module.resolve<MoeExpertsParams>(name + "_" + gpu::kernel_suffix(format));
    }
  }

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
    (is_many ? many_ : few_[static_cast<size_t>(w.format)])(cmd, grid, params, accesses);
  }

 private:
  std::array<Kernel<MoeExpertsParams>, 5> few_;  // pairs of an expert, by format
  Kernel<MoeExpertsParams> many_;                // BF16 only
  uint32_t gates_;
};

void launch_up(CommandList& cmd, const MoeExpertsUp& op, const ExpertProducts& products) {
  const MoeExpertsParams params{.weight = {},
                                .x = op.x.address(),
                                .expert_offsets = op.expert_offsets.address(),
                                .expert_pairs = op.expert_pairs.address(),
                                .out = op.out.address(),
                                .x_stride = stride(op.x),
                                .pairs_per_row = extent(op.out, 1),
                                .num_experts = 0,
                                .in_features = extent(op.x, 1),
                                .out_features = extent(op.out, 2),
                                .num_slices = 1,
                                .x_is_bf16 = 1,
                                .out_is_bf16 = is_bf16(op.out),
                                .reserved = 0};
  products.launch(cmd, op.gate_up, extent(op.expert_pairs, 0), params, accesses_of(op));
}

Tensor pairs_of(const MoeExpertsDown& op) { return op.act.reshape({op.act.dim(0) * op.act.dim(1), op.act.dim(2)}); }

/// The products of the pairs, [T, k, H] F32, before they are joined.
size_t down_workspace_bytes(const MoeExpertsDown& op) {
  return size_t{extent(op.act, 0)} * extent(op.act, 1) * extent(op.out, 1) * sizeof(float);
}

void launch_down(CommandList& cmd, const MoeExpertsDown& op, const ExpertProducts& products,
                 const Kernel<gpu::MoeJoinParams>& join) {
  const std::vector<Access> accesses = accesses_of(op);
  const Tensor pairs = pairs_of(op);
  const MoeExpertsParams params{.weight = {},
                                .x = pairs.address(),
                                .expert_offsets = op.expert_offsets.address(),
                                .expert_pairs = op.expert_pairs.address(),
                                .out = checked_workspace("moe_experts_down", op.workspace, down_workspace_bytes(op)),
                                .x_stride = stride(pairs),
                                .pairs_per_row = 1,
                                .num_experts = 0,
                                .in_features = extent(pairs, 1),
                                .out_features = extent(op.out, 1),
                                .num_slices = 1,
                                .x_is_bf16 = 1,
                                .out_is_bf16 = 0,
                                .reserved = 0};
  products.launch(cmd, op.down, extent(op.expert_pairs, 0), params, accesses);
  const gpu::MoeJoinParams join_params{.products = params.out,
                                       .topk_weights = op.topk_weights.address(),
                                       .shared = op.shared.address(),
                                       .shared_gate = op.shared_gate.address(),
                                       .out = op.out.address(),
                                       .shared_stride = stride(op.shared),
                                       .shared_gate_stride = stride(op.shared_gate),
                                       .out_stride = stride(op.out),
                                       .top_k = extent(op.act, 1),
                                       .hidden_size = params.out_features,
                                       .shared_is_bf16 = op.shared ? is_bf16(op.shared) : 0U,
                                       .out_is_bf16 = is_bf16(op.out)};
  join(cmd, Grid{ceil_div(params.out_features, gpu::kJoinThreads), extent(op.out, 0)}, join_params, accesses);
}

}  // namespace

void add_moe_prefill_ops(OpTable& table, const KernelModule& module) {
  table.add<MoeExpertsUp>(
      "mma",
      [products = ExpertProducts(module, "moe_prefill_up", 2)](CommandList& cmd, const MoeExpertsUp& op) {
        launch_up(cmd, op, products);
      },
      [](const MoeExpertsUp& op) { return accepts(op.precision, op.gate_up, op.x, op.x.dim(0)); });

  table.add<MoeExpertsDown>(
      "mma",
      [products = ExpertProducts(module, "moe_prefill_down", 1), join = module.resolve<gpu::MoeJoinParams>("moe_join")](
          CommandList& cmd, const MoeExpertsDown& op) { launch_down(cmd, op, products, join); },
      [](const MoeExpertsDown& op) {
        if (op.shared.is_absent() != op.shared_gate.is_absent()) {
          return Availability::no("shared and shared_gate must be given together");
        }
        return accepts(op.precision, op.down, pairs_of(op), op.out.dim(0));
      },
      down_workspace_bytes);
}

}  // namespace foretoken::cuda
