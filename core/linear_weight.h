// The weight of a linear layer, y = x W^T with W [N, K], in any format that released checkpoints use.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace foretoken {

enum class WeightFormat : uint8_t {
  kF32,
  kBF16,
  kFp8Row,    // E4M3 [N, K], scale F32 or BF16 [N] (one for the whole tensor: [1])
  kFp8Block,  // E4M3 [N, K], scale F32 or BF16 [ceil(N/128), ceil(K/128)]
  kNvfp4,     // E2M1 [N, K], scale E4M3 [N, K/16], global_scale F32 [1]
};

/// "f32", "bf16", "fp8-row", "fp8-block", "nvfp4".
[[nodiscard]] std::string_view to_string(WeightFormat format);

/// Views of a weight and its scales; memory belongs to whoever loaded it.
struct LinearWeight {
  Tensor weight;        // [N, K]; stacked experts: [E, N, K]
  Tensor scale;         // absent for F32 and BF16
  Tensor global_scale;  // NVFP4 only
  WeightFormat format = WeightFormat::kBF16;

  [[nodiscard]] bool is_absent() const { return weight.is_absent(); }
  [[nodiscard]] int64_t out_features() const { return weight.dim(weight.shape().rank() - 2); }
  [[nodiscard]] int64_t in_features() const { return weight.dim(weight.shape().rank() - 1); }
  /// Bytes that one pass over the weight reads, scales included.
  [[nodiscard]] size_t bytes() const { return weight.bytes() + scale.bytes() + global_scale.bytes(); }
};

}  // namespace foretoken
