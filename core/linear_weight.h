// The weight of a linear layer, y = x W^T with W [N, K], in any format that released checkpoints use.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace foretoken {

enum class WeightFormat : uint8_t {
  kF32,
  kBF16,
  kFp8Row,    // E4M3 [N, K], scale F32 or BF16 [N] (one for the whole tensor: [1])
  kFp8Block,  // E4M3 [N, K], scale F32 or BF16 [ceil(N/block_rows), ceil(K/128)]
  kNvfp4,     // E2M1 [N, K], K % 16 == 0; scale E4M3 [N, K/16], global_scale F32 [G] with N % G == 0
};

/// Columns that share a scale of an FP8 block, and rows too unless the loader had to cut blocks.
inline constexpr int64_t kFp8BlockExtent = 128;
/// Columns that share a scale in NVFP4.
inline constexpr int64_t kNvfp4Group = 16;

/// "f32", "bf16", "fp8-row", "fp8-block", "nvfp4".
[[nodiscard]] std::string_view to_string(WeightFormat format);

/// dtype of the codes of a format: F32, BF16, E4M3 or E2M1.
[[nodiscard]] DType code_dtype(WeightFormat format);

/// Views of a weight and its scales; memory belongs to whoever loaded it. E4M3 codes and scales are never NaN: loaders refuse
/// such tensors, so kernels may decode those two codes as any number.
///
/// Element (n, k) is, in float32 or better:
///   F32, BF16   weight[n, k]
///   FP8 row     weight[n, k] * scale[n]  (or scale[0])
///   FP8 block   weight[n, k] * scale[n / block_rows, k / 128]
///   NVFP4       weight[n, k] * scale[n, k / 16] * global_scale[n / (N / G)]
/// Stacked experts put an E in front of every shape: weight [E, N, K], scale [E, N] (never [1]), global_scale [E, G], ...
struct LinearWeight {
  Tensor weight;        // [N, K]; stacked experts: [E, N, K]
  Tensor scale;         // absent for F32 and BF16
  Tensor global_scale;  // NVFP4 only; G > 1: G equal groups of rows that were quantised apart, as gate and up of an expert
  WeightFormat format = WeightFormat::kBF16;
  int32_t block_rows = kFp8BlockExtent;  // FP8 block: rows that share a scale, a power of two up to 128

  [[nodiscard]] bool is_absent() const { return weight.is_absent(); }
  [[nodiscard]] int64_t out_features() const { return weight.dim(weight.shape().rank() - 2); }
  [[nodiscard]] int64_t in_features() const { return weight.dim(weight.shape().rank() - 1); }
  /// Bytes that one pass over the weight reads, scales included.
  [[nodiscard]] size_t bytes() const { return weight.bytes() + scale.bytes() + global_scale.bytes(); }
  /// Matrix `expert` of a stack: views of its parts.
  [[nodiscard]] LinearWeight expert(int64_t expert_idx) const;
};

/// Shape of `scale` for a matrix of `shape` [N, K] or a stack [E, N, K]; empty for F32 and BF16.
[[nodiscard]] Shape scale_shape(WeightFormat format, const Shape& shape, int64_t block_rows = kFp8BlockExtent);

/// Throws InvalidArgument that begins with `where` ("linear: weight") unless codes and scales are there, fit each other in shape
/// and dtype, and nothing is there that the format does not have. Matrices and stacks.
void check_weight(std::string_view where, const LinearWeight& weight);

}  // namespace foretoken
