// The files' side of a linear layer: its weight and scales, classified. For the sources of this folder, not for callers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/linear_weight.h"
#include "models/weight_map_catalog.h"

namespace foretoken {

/// Where the bytes of one matrix, or of its scales, begin in a tensor of the source.
struct StoredBytes {
  size_t tensor = 0;
  uint64_t begin = 0;
};

/// One [N, K] weight as it is stored: in tensors of its own, or as one expert of fused tensors.
struct StoredLinear {
  std::string name;  // of the tensor that holds the weight
  StoredBytes weight;
  std::optional<StoredBytes> scale;
  std::optional<StoredBytes> global_scale;
  bool reciprocal_global_scale = false;
  WeightFormat format = WeightFormat::kBF16;
  DType scale_dtype = DType::kF32;
  int64_t n = 0;
  int64_t k = 0;
  int64_t scale_extent = 1;  // rows of the weight that share a row of `scale`: 1, 128, or all of them

  /// Bytes of one row of the weight.
  [[nodiscard]] uint64_t row_bytes() const;
  /// Scales beside each other in one row of `scale`.
  [[nodiscard]] int64_t scale_columns() const;
  [[nodiscard]] uint64_t scale_row_bytes() const;
  /// Format and granularity, for errors: "fp8-row with one BF16 scale".
  [[nodiscard]] std::string describe() const;
};

/// Finds `base`.weight (or .weight_packed), decides its format from its dtype and scales, takes and checks all of them.
/// Throws FormatError or Unsupported, see plan_weights.
[[nodiscard]] StoredLinear find_linear(WeightCatalog& catalog, const std::string& base, int64_t n, int64_t k);

/// The same for `experts` matrices in the one tensor `name` [experts, n, k], whose scales are `name`_scale_inv and the like with
/// the experts in front.
[[nodiscard]] std::vector<StoredLinear> find_fused(WeightCatalog& catalog, const std::string& name, int64_t experts, int64_t n,
                                                   int64_t k);

}  // namespace foretoken
