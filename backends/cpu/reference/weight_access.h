// Elements of a linear layer's weight as float64, whatever its format.
#pragma once

#include <cstdint>

#include "backends/cpu/reference/host_tensor.h"
#include "core/linear_weight.h"

namespace foretoken {

/// Reads a weight [N, K] in host memory, which must outlive the reader.
class WeightReader {
 public:
  explicit WeightReader(const LinearWeight& weight);
  /// Matrix `expert` of a stacked weight [E, N, K].
  WeightReader(const LinearWeight& stacked, int64_t expert);

  /// Element (n, k): the stored value times its scales.
  [[nodiscard]] double operator()(int64_t n, int64_t k) const { return weight_(n, k) * scale_at(n, k); }

 private:
  [[nodiscard]] double scale_at(int64_t n, int64_t k) const;

  WeightFormat format_;
  int64_t block_rows_;
  HostTensor weight_;
  HostTensor scale_;
  HostTensor global_scale_;
  int64_t rows_per_global_scale_;
};

/// Element (n, k) of a weight [N, K] in host memory.
[[nodiscard]] inline double weight_at(const LinearWeight& weight, int64_t n, int64_t k) { return WeightReader(weight)(n, k); }

}  // namespace foretoken
