// The streaming kernels of linear layers: parameters, and the shapes that the host plans with and the kernels are made of.
#pragma once

#include <cstdint>

#include "backends/gpu/linear_params.h"

namespace foretoken::cuda {

/// Bytes of a weight row that a warp multiplies at a time.
inline constexpr uint32_t kSliceBytes = 128;
/// Rows of a tensor-core tile, and the rows of x that are its columns.
inline constexpr uint32_t kTileRows = 16;
inline constexpr uint32_t kTileColumns = 8;
/// Stages of a ring at most, and tiles whose partial sums wait for their epilogue.
inline constexpr uint32_t kMaxStages = 16;
inline constexpr uint32_t kSumBuffers = 2;
/// Weights of a launch.
inline constexpr uint32_t kMaxParts = 4;

/// How a work group shares the work. Of a row, or of its part of a row in a cluster, warp w of `split` has slices w, w + split
/// and so on. What decides the order of sums, `split`, `cluster`, `slice_elements` and `half`, must follow from the format and
/// the row length alone.
struct StreamShape {
  uint32_t split;               // warps that share a row
  uint32_t tiles = 1;           // tiles under way together, `split` warps each
  uint32_t cluster = 1;         // work groups that share a row, because x would not fit beside the ring of one
  uint32_t loaders = 2;         // warps that fill the ring: one alone cannot give out copies as fast as memory serves them
  uint32_t residents = 2;       // work groups that a multiprocessor should have registers and memory for: that of the next kernel
                                // fills its ring while this one ends
  uint32_t epilogues = 1;       // warps that add partial sums and store results
  uint32_t slice_elements;      // weights in kSliceBytes
  uint32_t scale_bytes = 0;     // of a row and slice that travel with the codes
  bool half = false;            // x becomes FP16 or E2M1, times a power of two per row and slice
  uint32_t row_padding = 0;     // bytes behind a row's codes
  uint32_t x_group_bytes = 32;  // of 16 elements of a row of x in shared memory

  [[nodiscard]] constexpr uint32_t multipliers() const { return split * tiles; }  // warps
  [[nodiscard]] constexpr uint32_t num_threads() const { return (multipliers() + loaders + epilogues) * 32; }
  /// Segments of rows lie in lines of shared memory as they lie in lines of memory, else each line would be copied in two pieces:
  /// padding is for fragments of 4 bytes, which lanes cannot read in an order of their own.
  [[nodiscard]] constexpr uint32_t row_stride() const { return split * kSliceBytes + row_padding; }
  [[nodiscard]] constexpr uint32_t scale_stride() const { return scale_bytes == 0 ? 0 : split * scale_bytes + 16; }
  [[nodiscard]] constexpr uint32_t stage_rows() const { return tiles * kTileRows; }
  [[nodiscard]] constexpr uint32_t stage_bytes() const { return stage_rows() * (row_stride() + scale_stride()); }
  /// Fragments of 16 bytes that a lane holds of x per slice.
  [[nodiscard]] constexpr uint32_t fragments() const { return slice_elements / 32; }

  // Shared memory, in this order: barriers, partial sums, scales of x, x, the ring. Each begins with a line.
  [[nodiscard]] constexpr uint32_t barrier_bytes() const { return whole_lines((2 * kMaxStages + 2 * kSumBuffers * tiles) * 8); }
  [[nodiscard]] constexpr uint32_t sum_bytes() const { return kSumBuffers * tiles * cluster * split * 32 * 16; }
  [[nodiscard]] constexpr uint32_t x_scale_bytes(uint32_t slices) const {
    return half ? whole_lines(slices * kTileColumns * 4) : 0;
  }
  [[nodiscard]] constexpr uint32_t x_bytes(uint32_t slices, uint32_t rows) const {
    return slices * slice_elements / 16 * x_group_bytes * rows;
  }
  /// Slices of the longest part of a row that one work group of a cluster has.
  [[nodiscard]] constexpr uint32_t group_slices(uint32_t in_features) const {
    return (in_features / slice_elements + cluster - 1) / cluster;
  }
  /// Everything but the ring, for `rows` rows of x.
  [[nodiscard]] constexpr uint32_t fixed_bytes(uint32_t in_features, uint32_t rows) const {
    const uint32_t slices = group_slices(in_features);
    return barrier_bytes() + sum_bytes() + x_scale_bytes(slices) + x_bytes(slices, rows);
  }

 private:
  [[nodiscard]] static constexpr uint32_t whole_lines(uint32_t bytes) { return (bytes + 127) / 128 * 128; }
};

/// The shapes of the formats.
inline constexpr StreamShape kStreamBf16{.split = 8, .slice_elements = 64};
inline constexpr StreamShape kStreamFp8{.split = 8, .slice_elements = 128, .half = true};
inline constexpr StreamShape kStreamNvfp4{
    .split = 8, .residents = 1, .epilogues = 2, .slice_elements = 256, .scale_bytes = 16, .half = true};

/// NVFP4 multiplied as it lies in memory (stream_terms.inl), by terms of x: kTerms times 16 codes, and a scale. With four terms
/// results would miss the tolerance of linear.
inline constexpr uint32_t kTerms = 5;
inline constexpr StreamShape kStreamBlockScaled{.split = 8,
                                                .residents = 1,
                                                .epilogues = 2,
                                                .slice_elements = 256,
                                                .scale_bytes = 16,
                                                .half = true,
                                                .row_padding = 16,
                                                .x_group_bytes = kTerms * 8 + 1};
static_assert(kStreamBlockScaled.epilogues == kStreamNvfp4.epilogues, "one workspace serves both");

/// The same in clusters of two work groups.
[[nodiscard]] constexpr StreamShape in_clusters(StreamShape shape) {
  shape.cluster = 2;
  return shape;
}

/// One weight and its result.
struct StreamPart {
  gpu::WeightParams weight;
  uint64_t out;         // [T, N]
  uint64_t out_stride;  // elements
  uint32_t end;         // rows of this part and of those before
  uint32_t out_is_bf16;
};

struct StreamParams {
  StreamPart part[kMaxParts];
  uint64_t x;  // [T, K] BF16
  uint64_t x_stride;
  uint32_t num_rows;    // of x
  uint32_t group_rows;  // of x that one work group multiplies, at most kTileColumns
  uint32_t in_features;
  uint32_t out_features;  // of all parts; of a pair of parts: of each
  uint32_t num_stages;
  uint32_t reserved;
};

/// linear_argmax: part 0 is the head and has no output. Each epilogue leaves what it found for row t of x at [t, its number].
struct StreamArgmaxParams {
  StreamParams stream;
  uint64_t part_max;   // [T, num_parts] F32
  uint64_t part_id;    // [T, num_parts] I32, -1: only NaN, or no rows of the weight
  uint64_t part_sum;   // [T, num_parts] F32: sum of exp(logit - max); 0: not wanted
  uint32_t num_parts;  // work groups times epilogues
  uint32_t reserved;
};

}  // namespace foretoken::cuda
