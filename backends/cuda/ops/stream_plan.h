// How the streaming kernels are launched: what every operator that streams its weights has in common.
#pragma once

#include <algorithm>

#include "backends/capabilities.h"
#include "backends/command_list.h"
#include "backends/cuda/kernels/stream_params.h"
#include "backends/gpu/ops/weights.h"

namespace foretoken::cuda {

/// Of a launch over `num_rows` rows of x.
struct StreamPlan {
  bool in_clusters;     // the kernel's variant in clusters
  uint32_t group_rows;  // StreamParams
  uint32_t num_stages;  // StreamParams
  Grid grid;
};

/// Stages of a ring. Fewer than kWantedStages leave memory idle, so x is shared by a cluster first; kUsefulLeast do beside the
/// ring of a neighbour. More than kUsefulStages make memory no busier. Rows of x give way to kLeastStages.
inline constexpr uint32_t kWantedStages = 4;
inline constexpr uint32_t kUsefulLeast = 3;
inline constexpr uint32_t kUsefulStages = 8;
inline constexpr uint32_t kLeastStages = 2;
/// What every device from sm_80 on gives a work group.
inline constexpr uint32_t kLeastGroupMemory = 99 << 10;

/// Whether the kernels of `shape` take rows of x of this width: no, with the reason, or yes.
[[nodiscard]] inline Availability streams_rows_of(const StreamShape& shape, int64_t in_features) {
  if (in_features % shape.slice_elements != 0) {
    return Availability::no("rows of a multiple of " + std::to_string(shape.slice_elements) + " weights");
  }
  if (in_features > int64_t{1} << 20 ||
      shape.fixed_bytes(static_cast<uint32_t>(in_features), 1) + kLeastStages * shape.stage_bytes() > kLeastGroupMemory) {
    return Availability::no("rows that fit into shared memory");
  }
  return Availability::yes();
}

/// No, with the reason, unless weight and x have the alignment and dtype that the kernels need.
[[nodiscard]] inline Availability streams(const StreamShape& shape, const LinearWeight& w, const Tensor& x) {
  if (x.dtype() != DType::kBF16) return Availability::no("for BF16 activations only");
  if (!gpu::is_aligned(w, x)) {
    return Availability::no("operands must begin and rows must follow each other at multiples of 16 bytes");
  }
  if (shape.scale_bytes != 0 && w.scale.address() % 16 != 0)
    return Availability::no("scales must begin at a multiple of 16 bytes");
  return streams_rows_of(shape, w.in_features());
}

/// How to launch `shape` on this device; `has_clusters`: it has the variant in clusters. Which variant it is, and with it the
/// order of sums, follows from the device and the width of x alone. A work group takes its share of a multiprocessor's memory
/// where a ring of use fits there, else all of it.
[[nodiscard]] inline StreamPlan plan_stream(const StreamShape& shape, bool has_clusters, uint32_t in_features, uint32_t num_rows,
                                            const Capabilities& device) {
  constexpr uint32_t kReserved = 1 << 10;  // of a multiprocessor's memory, for each of its work groups
  const uint32_t all = device.max_group_memory;
  const uint32_t share = (all + kReserved) / shape.residents - kReserved;
  const auto stages = [in_features](const StreamShape& tried, uint32_t rows, uint32_t memory) {
    const uint32_t fixed = tried.fixed_bytes(in_features, rows);
    return fixed < memory ? std::min((memory - fixed) / tried.stage_bytes(), kUsefulStages) : 0;
  };
  StreamPlan plan{.in_clusters = has_clusters && stages(shape, kTileColumns, all) < kWantedStages,
                  .group_rows = 0,
                  .num_stages = 0,
                  .grid = {}};
  const StreamShape chosen = plan.in_clusters ? in_clusters(shape) : shape;
  uint32_t rows = std::min(num_rows, kTileColumns);
  while (rows > 1 && stages(chosen, rows, all) < kLeastStages) --rows;
  const uint32_t passes = gpu::ceil_div(num_rows, rows);
  plan.group_rows = gpu::ceil_div(num_rows, passes);
  plan.num_stages = stages(chosen, plan.group_rows, share);
  if (plan.num_stages < kUsefulLeast) plan.num_stages = stages(chosen, plan.group_rows, all);
  plan.grid = {.x = device.num_compute_units / chosen.cluster * chosen.cluster,
               .y = passes,
               .z = 1,
               .group_memory = chosen.fixed_bytes(in_features, plan.group_rows) + plan.num_stages * chosen.stage_bytes()};
  return plan;
}

}  // namespace foretoken::cuda
