// The mixture-of-experts operators with BF16 activations, on tensor cores, and the routing of a few rows in one launch.
#include "core/ops/moe_block.h"

#include <algorithm>
#include <string>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/moe_params.h"
#include "backends/cuda/ops/small_kernels.h"
#include "backends/cuda/ops/weight_units.h"
#include "backends/gpu/ops/moe.h"
#include "backends/gpu/ops/weights.h"

namespace foretoken::cuda {
namespace {

using gpu::ceil_div;
using gpu::extent;
using gpu::FormatKernels;
using gpu::stride;

/// Warps that share a row of gate_up: so many that the experts of one row of x keep the device busy. It decides the order of
/// sums, so it must depend on the weight alone.
uint32_t slice_bits_of(const LinearWeight& gate_up) {
  const uint32_t most = gate_up.out_features() >= 1024 ? 2 : 3;
  uint32_t bits = 0;
  while (bits < most && 2U << bits <= num_units(gate_up)) ++bits;
  return bits;
}

/// Bytes from one row of x to the next in group memory: whole units, and what keeps neighbours apart.
uint32_t x_row_bytes(const LinearWeight& w) { return num_units(w) * unit_elements(w) * 2 + kRowPadBytes; }

/// Of rows of x: what every device with tensor cores for BF16 has, with some to spare.
constexpr uint32_t kMostRowBytes = 80 << 10;

/// `rows` of x that a work group holds at once.
Availability accepts(ExpertFormats formats, const LinearWeight& w, const Tensor& x, int64_t matrix_rows, uint32_t rows) {
  if (x.dtype() != DType::kBF16) return Availability::no("for BF16 activations only");
  if (w.format == WeightFormat::kF32) return Availability::no("F32 weights would be rounded");
  const bool is_fp8 = w.format == WeightFormat::kFp8Row || w.format == WeightFormat::kFp8Block;
  if (is_fp8 != (formats == ExpertFormats::kFp8)) {
    return Availability::no(is_fp8 ? "for BF16 and NVFP4 weights" : "for FP8 weights");
  }
  if (w.format == WeightFormat::kFp8Block && (w.block_rows % kExpertTileRows != 0 || matrix_rows % kExpertTileRows != 0)) {
    return Availability::no("blocks and matrices of a multiple of " + std::to_string(kExpertTileRows) + " rows");
  }
  if (const Availability aligned = gpu::has_whole_vectors(w, x); !aligned) return aligned;
  if (rows * x_row_bytes(w) > kMostRowBytes) return Availability::no("shorter rows of activations");
  return Availability::yes();
}

MoeRouteFewParams route_params(const MoeRoute& op) {
  return {.logits = op.logits.address(),
          .topk_ids = op.topk_ids.address(),
          .topk_weights = op.topk_weights.address(),
          .expert_offsets = op.expert_offsets.address(),
          .expert_pairs = op.expert_pairs.address(),
          .logits_stride = stride(op.logits),
          .num_rows = extent(op.logits, 0),
          .num_experts = extent(op.logits, 1),
          .top_k = extent(op.topk_ids, 1),
          .renormalise = op.norm_topk_prob ? 1U : 0U};
}

/// Whether one work group can route these rows.
Availability routes(const MoeRoute& op) {
  if (op.topk_ids.dim(1) > op.logits.dim(1)) return Availability::no("no more picks than experts");
  if (op.logits.dim(0) * op.topk_ids.dim(1) > kRouteFewPairs) {
    return Availability::no("at most " + std::to_string(kRouteFewPairs) + " picks");
  }
  if (op.logits.dim(0) > kRouteFewRows) return Availability::no("at most " + std::to_string(kRouteFewRows) + " rows");
  return gpu::dim_at_most(op.logits, 1, kRouteFewExperts, "router outputs");
}

void add_moe_route(OpTable& table, const KernelModule& module) {
  table.add<MoeRoute>(
      "one launch",
      [kernel = module.resolve<MoeRouteFewParams>("moe_route_few")](CommandList& cmd, const MoeRoute& op) {
        kernel(cmd, Grid{}, route_params(op), accesses_of(op));
      },
      routes);
}

MoeTileParams tile_params(const LinearWeight& w, const Tensor& x, const Tensor& expert_offsets, const Tensor& expert_pairs) {
  return {.weight = gpu::weight_params(w),
          .x = x.address(),
          .x_stride = stride(x),
          .expert_offsets = expert_offsets.address(),
          .expert_pairs = expert_pairs.address(),
          .out = 0,
          .pairs_per_row = 1,
          .num_pairs = extent(expert_pairs, 0),
          .num_experts = extent(w.weight, 0),
          .in_features = static_cast<uint32_t>(w.in_features()),
          .out_features = 0,
          .slice_bits = 0,
          .x_row_bytes = x_row_bytes(w),
          .out_is_bf16 = 0};
}

/// Work groups for all columns and all experts that can have pairs; each holds `rows` rows of x.
Grid tile_grid(const MoeTileParams& params, uint32_t rows) {
  const uint32_t columns = (kExpertWarps >> params.slice_bits) * kExpertTileRows;
  return {.x = ceil_div(params.out_features, columns),
          .y = std::min(params.num_experts, params.num_pairs),
          .group_memory = rows * params.x_row_bytes};
}

MoeTileParams up_params(const MoeExpertsUp& op) {
  MoeTileParams params = tile_params(op.gate_up, op.x, op.expert_offsets, op.expert_pairs);
  params.out = op.out.address();
  params.pairs_per_row = extent(op.out, 1);
  params.out_features = extent(op.out, 2);
  params.slice_bits = slice_bits_of(op.gate_up);
  params.out_is_bf16 = gpu::is_bf16(op.out);
  return params;
}

Availability accepts_up(ExpertFormats formats, const MoeExpertsUp& op) {
  return accepts(formats, op.gate_up, op.x, op.gate_up.out_features() / 2, 8);
}

void add_moe_experts_up(OpTable& table, const KernelModule& module, ExpertFormats formats) {
  const FormatKernels<MoeTileParams> few(module, "moe_up_", "_x8");
  const FormatKernels<MoeTileParams> many(module, "moe_up_", "_x16");
  table.add<MoeExpertsUp>(
      "tensor cores",
      [few, many](CommandList& cmd, const MoeExpertsUp& op) {
        const uint32_t num_rows = extent(op.x, 0);
        const MoeTileParams params = up_params(op);
        const bool eight = num_rows <= 8 || 16 * params.x_row_bytes > kMostRowBytes;
        const auto& kernel = (eight ? few : many).get(op.gate_up.format);
        kernel(cmd, tile_grid(params, std::min(num_rows, eight ? 8U : 16U)), params, accesses_of(op));
      },
      [formats](const MoeExpertsUp& op) { return accepts_up(formats, op); });
}

MoeDownParams down_params(const MoeExpertsDown& op) {
  return {.weight = gpu::weight_params(op.down),
          .x = op.act.address(),
          .expert_offsets = op.expert_offsets.address(),
          .expert_pairs = op.expert_pairs.address(),
          .topk_weights = op.topk_weights.address(),
          .shared = op.shared.address(),
          .shared_gate = op.shared_gate.address(),
          .out = op.out.address(),
          .shared_stride = stride(op.shared),
          .shared_gate_stride = stride(op.shared_gate),
          .out_stride = stride(op.out),
          .num_rows = extent(op.act, 0),
          .top_k = extent(op.act, 1),
          .num_experts = extent(op.down.weight, 0),
          .in_features = extent(op.act, 2),
          .out_features = extent(op.out, 1),
          .x_row_bytes = x_row_bytes(op.down),
          .shared_is_bf16 = op.shared ? gpu::is_bf16(op.shared) : 0U,
          .out_is_bf16 = gpu::is_bf16(op.out)};
}

class DownKernels {
 public:
  explicit DownKernels(const KernelModule& module)
      : together_(module, "moe_down_"),
        products_(module, "moe_products_"),
        join_(module.resolve<gpu::MoeJoinParams>("moe_join")) {}

  void launch(CommandList& cmd, const MoeExpertsDown& op) const {
    constexpr uint32_t kMostGroupMemory = 96 << 10;  // two work groups of a multiprocessor
    const uint32_t memory = group_memory(op);
    if (extent(op.act, 0) <= kDownRows && memory <= std::min(kMostGroupMemory, cmd.capabilities().max_group_memory - 1024)) {
      launch_together(cmd, op, memory);
    } else {
      launch_apart(cmd, op);
    }
  }

 private:
  /// What moe_down keeps (kernels/moe_params.h).
  static uint32_t group_memory(const MoeExpertsDown& op) {
    const uint32_t num_pairs = extent(op.expert_pairs, 0);
    const uint32_t num_active = std::min(num_pairs, extent(op.down.weight, 0));
    return num_pairs * (x_row_bytes(op.down) + 4 * kExpertTileRows + 8) + 12 * num_active;
  }

  void launch_together(CommandList& cmd, const MoeExpertsDown& op, uint32_t memory) const {
    const MoeDownParams params = down_params(op);
    const Grid grid{.x = ceil_div(params.out_features, kExpertTileRows), .group_memory = memory};
    together_.get(op.down.format)(cmd, grid, params, accesses_of(op));
  }

  void launch_apart(CommandList& cmd, const MoeExpertsDown& op) const {
    const std::vector<Access> accesses = accesses_of(op);
    MoeTileParams params = tile_params(op.down, gpu::pairs_of(op), op.expert_offsets, op.expert_pairs);
    params.out = checked_workspace("moe_experts_down", op.workspace, gpu::products_bytes(op));
    params.out_features = extent(op.out, 1);
    products_.get(op.down.format)(cmd, tile_grid(params, std::min(extent(op.act, 0), 16U)), params, accesses);
    gpu::launch_join(cmd, op, params.out, join_, accesses);
  }

  FormatKernels<MoeDownParams> together_;
  FormatKernels<MoeTileParams> products_;
  Kernel<gpu::MoeJoinParams> join_;
};

Availability accepts_down(ExpertFormats formats, const MoeExpertsDown& op) {
  const Availability shared = gpu::has_whole_shared(op);
  return shared ? accepts(formats, op.down, gpu::pairs_of(op), op.down.out_features(), 16) : shared;
}

void add_moe_experts_down(OpTable& table, const KernelModule& module, ExpertFormats formats) {
  table.add<MoeExpertsDown>(
      "tensor cores", [kernels = DownKernels(module)](CommandList& cmd, const MoeExpertsDown& op) { kernels.launch(cmd, op); },
      [formats](const MoeExpertsDown& op) { return accepts_down(formats, op); }, gpu::products_bytes);
}

/// MoeBlock for few rows in three launches: everything small that reads x; the first projection of the experts; the output of the
/// shared expert and the second projection. The work groups of the last two route the rows themselves, so that weights are asked
/// for as early as they can be.
class FewRowsBlock {
 public:
  explicit FewRowsBlock(const KernelModule& module) : small_(module) {
    for (const WeightFormat format : kFormats) {
      const std::string suffix = gpu::kernel_suffix(format);
      up_[static_cast<size_t>(format)] = module.resolve<MoeBlockUpParams>("moe_block_up_" + suffix);
      down_[static_cast<size_t>(format)] = module.resolve_optional<MoeBlockDownParams>("moe_block_down_" + suffix);
    }
  }

  void launch(CommandList& cmd, const MoeBlock& op) const {
    const std::vector<Access> accesses = accesses_of(op);
    SmallLaunch scores(op.x);
    scores.add(op.router, op.logits);
    scores.add(op.shared_expert_gate, op.shared_score);
    scores.add_pair(op.shared_gate, op.shared_up, op.shared_act);
    scores.release_early();
    small_.launch(cmd, scores, accesses);
    launch_up(cmd, op, accesses);
    launch_down(cmd, op, accesses);
  }

  [[nodiscard]] Availability accepts(const MoeBlock& op) const {
    if (op.precision != LinearPrecision::kExact) return Availability::no("for exact passes");
    if (op.x.dim(0) > kBlockRows) return Availability::no("at most " + std::to_string(kBlockRows) + " rows");
    if (op.expert_pairs.dim(0) > kBlockPairs) return Availability::no("at most " + std::to_string(kBlockPairs) + " picks");
    if (std::ranges::find(kFormats, op.gate_up.format) == kFormats.end() || op.down.format != op.gate_up.format) {
      return Availability::no("experts of BF16 or of NVFP4");
    }
    if (const auto& down = down_[static_cast<size_t>(op.down.format)]; !down) return Availability::no(down.absent_reason());
    const LinearWeight* small[] = {&op.router, &op.shared_expert_gate, &op.shared_gate, &op.shared_up, &op.shared_down};
    for (const LinearWeight* w : small) {
      if (w->format != WeightFormat::kBF16) return Availability::no("router and shared expert of BF16");
      if (const Availability one = small_accepts(*w, w == &op.shared_down ? op.shared_act : op.x); !one) return one;
    }
    if (const Availability same = gpu::gate_and_up_agree(op.shared_product()); !same) return same;
    if (const Availability few = routes(op.route()); !few) return few;
    if (const Availability experts = gpu::dim_at_most(op.logits, 1, kRouteTileExperts, "router outputs"); !experts)
      return experts;
    for (const LinearWeight* w : {&op.gate_up, &op.down, &op.shared_down}) {
      if (w->in_features() % unit_elements(*w) != 0 || w->scale.address() % 16 != 0) {
        return Availability::no("experts with rows of a multiple of " + std::to_string(unit_elements(*w)) + " weights");
      }
    }
    if (num_units(op.gate_up) % kBlockStageUnits != 0 || slice_bits_of(op.gate_up) == 0) {
      return Availability::no("rows of x of a multiple of " + std::to_string(kBlockStageUnits * unit_elements(op.gate_up)) +
                              " elements");
    }
    if (down_memory(op) > kMostBlockMemory) return Availability::no("shorter rows of activations");
    const Availability up = accepts_up(ExpertFormats::kBF16AndNvfp4, op.experts_up());
    return up ? accepts_down(ExpertFormats::kBF16AndNvfp4, op.experts_down()) : up;
  }

 private:
  static constexpr std::array kFormats{WeightFormat::kBF16, WeightFormat::kNvfp4};
  /// Beside what moe_block_down declares.
  static constexpr uint32_t kMostBlockMemory = kBlockGroupMemory - (9 << 10);

  /// Bytes of codes and scales of a unit of a row.
  static uint32_t unit_bytes(const LinearWeight& w) { return kUnitBits / 8 + (w.format == WeightFormat::kNvfp4 ? 16 : 0); }

  /// Of the columns of one matrix in moe_block_down.
  static uint32_t slot_bytes(const MoeBlock& op) {
    const auto bytes = [](const LinearWeight& w) { return kBlockColumns * num_units(w) * unit_bytes(w); };
    return std::max(bytes(op.down), bytes(op.shared_down));
  }
  /// Group memory of moe_block_down (kernels/moe_block_down.cuh).
  static uint32_t down_memory(const MoeBlock& op) {
    return kBlockSlots * slot_bytes(op) + extent(op.expert_pairs, 0) * x_row_bytes(op.down) +
           extent(op.x, 0) * x_row_bytes(op.shared_down);
  }

  void launch_up(CommandList& cmd, const MoeBlock& op, std::span<const Access> accesses) const {
    MoeBlockUpParams params{.tile = up_params(op.experts_up()), .route = route_params(op.route()), .num_sets = 0, .reserved = 0};
    const uint32_t sets = params.tile.out_features / kExpertTileRows;
    // As many sets in turn as leave a work group to each multiprocessor.
    params.num_sets = ceil_div(sets * params.tile.num_pairs, cmd.capabilities().num_compute_units);
    const Grid grid{.x = ceil_div(sets, params.num_sets),
                    .y = params.tile.num_pairs,
                    .group_memory = kBlockStages * 2 * kExpertTileRows * kBlockStageUnits * unit_bytes(op.gate_up) +
                                    params.route.num_rows * params.tile.x_row_bytes};
    up_[static_cast<size_t>(op.gate_up.format)](cmd, grid, params, accesses);
  }

  void launch_down(CommandList& cmd, const MoeBlock& op, std::span<const Access> accesses) const {
    const MoeBlockDownParams params{.down = down_params(op.experts_down()),
                                    .route = route_params(op.route()),
                                    .shared_weight = gpu::weight_params(op.shared_down),
                                    .shared_x = op.shared_act.address(),
                                    .shared_x_stride = stride(op.shared_act),
                                    .shared_features = static_cast<uint32_t>(op.shared_down.in_features()),
                                    .shared_slice_bits = small_slice_bits(op.shared_down, op.shared_down.out_features()),
                                    .shared_row_bytes = x_row_bytes(op.shared_down),
                                    .slot_bytes = slot_bytes(op)};
    const Grid grid{.x = params.down.out_features / kBlockColumns, .group_memory = down_memory(op)};
    down_[static_cast<size_t>(op.down.format)](cmd, grid, params, accesses);
  }

  SmallKernels small_;
  std::array<Kernel<MoeBlockUpParams>, 5> up_;
  std::array<Kernel<MoeBlockDownParams>, 5> down_;
};

}  // namespace

void add_moe_route_ops(OpTable& table, const KernelModule& module) { add_moe_route(table, module); }

void add_moe_expert_ops(OpTable& table, const KernelModule& module, ExpertFormats formats) {
  add_moe_experts_up(table, module, formats);
  add_moe_experts_down(table, module, formats);
}

void add_moe_block_ops(OpTable& table, const KernelModule& module) {
  const FewRowsBlock block(module);
  table.add<MoeBlock>(
      "few rows", [block](CommandList& cmd, const MoeBlock& op) { block.launch(cmd, op); },
      [block](const MoeBlock& op) { return block.accepts(op); });
}

}  // namespace foretoken::cuda
