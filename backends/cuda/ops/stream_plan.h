// How the streaming kernels are launched: what every operator that streams its weights has in common.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "backends/capabilities.h"
#include "backends/command_list.h"
#include "backends/cuda/kernels/stream_params.h"
#include "backends/gpu/ops/weights.h"

namespace foretoken::cuda {

/// Of a launch over `num_rows` rows of x.
struct StreamPlan {
  size_t variant;       // of those that it was made for
  StreamShape shape;    // of that variant
  uint32_t group_rows;  // StreamParams
  uint32_t num_stages;  // StreamParams
  Grid grid;
};

/// Of each ring: with fewer tiles than kWantedTiles memory idles, so a variant that needs less room is taken first. More than
/// kUsefulStages make memory no busier. Rows of x give way to kLeastStages.
inline constexpr uint32_t kWantedTiles = 4;
inline constexpr uint32_t kUsefulStages = 8;
inline constexpr uint32_t kLeastStages = 2;
static_assert(kUsefulStages * kStreamNvfp4.groups <= kMaxStages);

/// Whether the kernels of `shape` take rows of x of this width: no, with the reason, or yes.
[[nodiscard]] inline Availability streams_rows_of(const StreamShape& shape, int64_t in_features) {
  if (in_features % shape.slice_elements != 0) {
    return Availability::no("rows of a multiple of " + std::to_string(shape.slice_elements) + " weights");
  }
  if (in_features > int64_t{1} << 20 ||
      shape.fixed_bytes(static_cast<uint32_t>(in_features), 1) + kLeastStages * shape.groups * shape.stage_bytes() >
          shape.group_memory) {
    return Availability::no("rows that fit into shared memory");
  }
  return Availability::yes();
}

/// No, with the reason, unless weight and x have the alignment and dtype that the kernels need.
[[nodiscard]] inline Availability streams(const StreamShape& shape, const LinearWeight& w, const Tensor& x) {
  if (x.dtype() != DType::kBF16) return Availability::no("for BF16 activations only");
  if (const Availability aligned = gpu::has_whole_vectors(w, x); !aligned) return aligned;
  if (shape.scale_bytes != 0 && w.scale.address() % 16 != 0)
    return Availability::no("scales must begin at a multiple of 16 bytes");
  return streams_rows_of(shape, w.in_features());
}

/// How to launch one of `variants`, which this device has all. Which one it is, and with it the order of sums, follows from the
/// device and the width of x alone.
[[nodiscard]] inline StreamPlan plan_stream(std::span<const StreamShape> variants, uint32_t in_features, uint32_t num_rows,
                                            const Capabilities& device) {
  const uint32_t memory = device.max_group_memory;
  const auto stages = [in_features, memory](const StreamShape& shape, uint32_t rows) {
    const uint32_t fixed = shape.fixed_bytes(in_features, rows);
    return fixed < memory ? std::min((memory - fixed) / (shape.groups * shape.stage_bytes()), kUsefulStages) : 0;
  };
  size_t variant = 0;
  while (variant + 1 < variants.size() && stages(variants[variant], kTileColumns) * variants[variant].blocks < kWantedTiles) {
    ++variant;
  }
  const StreamShape& shape = variants[variant];
  uint32_t rows = std::min(num_rows, kTileColumns);
  while (rows > 1 && stages(shape, rows) < kLeastStages) --rows;
  const uint32_t passes = gpu::ceil_div(num_rows, rows);
  const uint32_t group_rows = gpu::ceil_div(num_rows, passes);
  const uint32_t num_stages = stages(shape, group_rows);
  return {.variant = variant,
          .shape = shape,
          .group_rows = group_rows,
          .num_stages = num_stages,
          .grid = {.x = device.num_compute_units / shape.cluster * shape.cluster,
                   .y = passes,
                   .z = 1,
                   .group_memory = shape.fixed_bytes(in_features, group_rows) + num_stages * shape.groups * shape.stage_bytes()}};
}

}  // namespace foretoken::cuda
