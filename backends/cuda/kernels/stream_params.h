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
/// Stages of all rings at most, and rows of tiles of a group whose partial sums wait for their epilogue.
inline constexpr uint32_t kMaxStages = 16;
inline constexpr uint32_t kSumBuffers = 2;
/// Weights of a launch.
inline constexpr uint32_t kMaxParts = 4;

/// How a work group shares the work. A stage is up to split * run slices of `blocks` tiles; of its slices each of `split` warps
/// has as many as the next, one after the other. What decides the order of sums, `split`, `run`, `cluster`, `slice_elements` and
/// `half`, must follow from the format and the row length alone.
struct StreamShape {
  uint32_t split;                    // warps that share a row
  uint32_t run = 1;                  // slices of a stage that each of them has, at most
  uint32_t groups = 1;               // groups of `split` warps: they take rows of tiles in turn, each from a ring of its own
  uint32_t blocks = 1;               // tiles that a warp multiplies together: they share what it reads of x
  uint32_t cluster = 1;              // work groups that share a row, because x would not fit beside the ring of one
  uint32_t loaders = 2;              // warps that fill the ring: one alone cannot give out copies as fast as memory serves them
  uint32_t epilogues = 1;            // warps that add partial sums and store results
  uint32_t slice_elements;           // weights in kSliceBytes
  uint32_t scale_bytes = 0;          // of a row and slice that travel with the codes
  bool half = false;                 // x becomes FP16 or E2M1, times a power of two per row and slice
  bool decoding = false;             // decoding takes as long as reading: instructions are spared at the expense of memory
  uint32_t row_padding = 0;          // bytes behind a row's codes
  uint32_t x_group_bytes = 32;       // of 16 elements of a row of x in shared memory
  uint32_t group_memory = 99 << 10;  // that a device must give a work group: by default what every one from sm_80 on does

  [[nodiscard]] constexpr uint32_t multipliers() const { return split * groups; }  // warps
  [[nodiscard]] constexpr uint32_t num_threads() const { return (multipliers() + loaders + epilogues) * 32; }
  [[nodiscard]] constexpr uint32_t stage_slices() const { return split * run; }
  /// Segments of rows lie in lines of shared memory as they lie in lines of memory, else each line would be copied in two pieces.
  /// Padding is for fragments of 4 bytes, which lanes cannot read in an order of their own; half a line of it spares the lanes
  /// the exchange of what they read of odd rows (RowPieces).
  [[nodiscard]] constexpr uint32_t row_stride() const { return stage_slices() * kSliceBytes + row_padding; }
  [[nodiscard]] constexpr uint32_t scale_stride() const { return scale_bytes == 0 ? 0 : stage_slices() * scale_bytes + 16; }
  [[nodiscard]] constexpr uint32_t stage_rows() const { return blocks * kTileRows; }
  [[nodiscard]] constexpr uint32_t stage_bytes() const { return stage_rows() * (row_stride() + scale_stride()); }
  /// Rows of tiles whose partial sums may wait for their epilogue, and those tiles.
  /// In clusters each epilogue of each work group has a buffer of its own, so that it sees all of the buffer's phases.
  [[nodiscard]] constexpr uint32_t sum_buffers() const { return cluster > 1 ? cluster * epilogues : kSumBuffers * groups; }
  [[nodiscard]] constexpr uint32_t sum_tiles() const { return sum_buffers() * blocks; }
  /// Fragments of 16 bytes that a lane holds of x per slice.
  [[nodiscard]] constexpr uint32_t fragments() const { return slice_elements / 32; }

  // Shared memory, in this order: barriers, partial sums, scales of x, x, the rings. Each begins with a line.
  [[nodiscard]] constexpr uint32_t barrier_bytes() const { return whole_lines((2 * kMaxStages + 2 * sum_tiles()) * 8); }
  [[nodiscard]] constexpr uint32_t sum_bytes() const { return sum_tiles() * cluster * split * 32 * 16; }
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
  /// Everything but the rings, for `rows` rows of x.
  [[nodiscard]] constexpr uint32_t fixed_bytes(uint32_t in_features, uint32_t rows) const {
    const uint32_t slices = group_slices(in_features);
    return barrier_bytes() + sum_bytes() + x_scale_bytes(slices) + x_bytes(slices, rows);
  }

 private:
  [[nodiscard]] static constexpr uint32_t whole_lines(uint32_t bytes) { return (bytes + 127) / 128 * 128; }
};

/// A shape that kernels exist in: STREAM_OPERATOR_FORMAT and this behind it.
struct StreamVariant {
  const char* suffix;
  StreamShape shape;
};

/// The same shape in clusters of two work groups.
[[nodiscard]] constexpr StreamShape in_clusters(StreamShape shape) {
  shape.cluster = 2;
  return shape;
}

/// The variants of each format. Of those that a device has, the first with room for all rows of x beside its rings is taken,
/// else the last.
inline constexpr StreamShape kStreamBf16{.split = 8, .slice_elements = 64};
inline constexpr StreamVariant kBf16Variants[] = {{"", kStreamBf16}, {"_clusters", in_clusters(kStreamBf16)}};

inline constexpr StreamShape kStreamFp8{.split = 8, .slice_elements = 128, .half = true};
inline constexpr StreamVariant kFp8Variants[] = {{"", kStreamFp8}, {"_clusters", in_clusters(kStreamFp8)}};

/// Two tiles together share what is read of x, and long runs spare barriers. That takes room, which long rows of x and small
/// devices do not leave.
inline constexpr StreamShape kStreamNvfp4{.split = 4,
                                          .run = 2,
                                          .groups = 2,
                                          .blocks = 2,
                                          .loaders = 4,
                                          .epilogues = 3,
                                          .slice_elements = 256,
                                          .scale_bytes = 16,
                                          .half = true,
                                          .decoding = true,
                                          .row_padding = 64,
                                          .group_memory = 220 << 10};
inline constexpr StreamShape kStreamNvfp4Long{.split = 8,
                                              .blocks = 2,
                                              .loaders = 4,
                                              .epilogues = 2,
                                              .slice_elements = 256,
                                              .scale_bytes = 16,
                                              .half = true,
                                              .decoding = true,
                                              .row_padding = 64,
                                              .group_memory = 160 << 10};
inline constexpr StreamShape kStreamNvfp4Small{.split = 8,
                                               .loaders = 4,
                                               .epilogues = 2,
                                               .slice_elements = 256,
                                               .scale_bytes = 16,
                                               .half = true,
                                               .decoding = true,
                                               .row_padding = 64};
inline constexpr StreamVariant kNvfp4Variants[] = {{"", kStreamNvfp4},
                                                   {"_long", kStreamNvfp4Long},
                                                   {"_small", kStreamNvfp4Small},
                                                   {"_clusters", in_clusters(kStreamNvfp4Small)}};

/// NVFP4 multiplied as it lies in memory (stream_terms.inl), by terms of x: kTerms times 16 codes, and a scale. With four terms
/// results would miss the tolerance of linear.
inline constexpr uint32_t kTerms = 5;
inline constexpr StreamShape kStreamBlockScaled{.split = 8,
                                                .epilogues = 2,
                                                .slice_elements = 256,
                                                .scale_bytes = 16,
                                                .half = true,
                                                .row_padding = 16,
                                                .x_group_bytes = kTerms * 8 + 1};
inline constexpr StreamVariant kBlockScaledVariants[] = {{"", kStreamBlockScaled},
                                                         {"_clusters", in_clusters(kStreamBlockScaled)}};

inline constexpr uint32_t kMaxStreamVariants = 4;

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
  uint32_t num_stages;    // of each group's ring
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
