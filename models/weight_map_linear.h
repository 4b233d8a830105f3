// The files' side of a linear layer: its weight and scales, classified. For the sources of this folder, not for callers.
#pragma once

#include <optional>
#include <string>

#include "core/linear_weight.h"
#include "models/weight_map_catalog.h"

namespace foretoken {

/// One [N, K] weight as it is stored.
struct StoredLinear {
  std::string name;  // of the tensor that holds the weight
  size_t weight = 0;
  std::optional<size_t> scale;
  std::optional<size_t> global_scale;
  bool reciprocal_global_scale = false;
  WeightFormat format = WeightFormat::kBF16;
  int64_t n = 0;
  int64_t k = 0;

  [[nodiscard]] DType dtype() const;
  /// Rows and columns of the scale for `rows` rows of the weight; a row or tensor scale has one column.
  [[nodiscard]] int64_t scale_rows(const WeightCatalog& catalog) const;
  [[nodiscard]] int64_t scale_columns() const;
};

/// Finds `base`.weight (or .weight_packed), decides its format from its dtype and scales, takes and checks all of them.
/// Throws FormatError or Unsupported, see plan_weights.
[[nodiscard]] StoredLinear find_linear(WeightCatalog& catalog, const std::string& base, int64_t n, int64_t k);

}  // namespace foretoken
