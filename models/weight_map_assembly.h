// Planned weights put together from rows of stored ones: which bytes go where. For the sources of this folder, not for callers.
#pragma once

#include <vector>

#include "models/weight_map.h"
#include "models/weight_map_linear.h"

namespace foretoken {

/// Rows [begin, begin + count) of a stored weight.
struct WeightSegment {
  const StoredLinear* stored = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
};

/// A matrix, or a stack of `experts` matrices (0: one matrix without a stack), of segments one after another. The stored weights
/// are alike in format and outlive this.
class WeightAssembly {
 public:
  /// `row_groups`: parts of equal size of a matrix, each of one stored weight, that have a global scale of their own (NVFP4).
  WeightAssembly(std::vector<WeightSegment> segments, int64_t experts, int64_t row_groups);

  [[nodiscard]] const StoredLinear& first() const { return *segments_.front().stored; }
  [[nodiscard]] Shape shape() const;
  [[nodiscard]] Shape scales_shape() const;
  [[nodiscard]] Shape global_scales_shape() const;
  /// Rows of an FP8 block: 128, or the power of two that no block of a stored weight and no boundary of a segment cuts.
  [[nodiscard]] int64_t block_rows() const;
  [[nodiscard]] std::vector<WeightPiece> weights() const;
  /// A scale that covers more rows in the file than in the plan is repeated.
  [[nodiscard]] std::vector<WeightPiece> scales() const;
  [[nodiscard]] std::vector<WeightPiece> global_scales() const;

 private:
  std::vector<WeightSegment> segments_;
  int64_t experts_;
  int64_t row_groups_;
  int64_t rows_ = 0;           // of all matrices
  int64_t matrix_rows_ = 0;    // of one
  bool is_one_scale_ = false;  // FP8: the one scale of a matrix stays one
};

}  // namespace foretoken
