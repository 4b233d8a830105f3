#include "backends/cpu/reference/weight_access.h"

namespace foretoken {

WeightReader::WeightReader(const LinearWeight& weight)
    : format_(weight.format),
      block_rows_(weight.block_rows),
      weight_(weight.weight),
      scale_(weight.scale),
      global_scale_(weight.global_scale),
      rows_per_global_scale_(weight.global_scale ? weight.out_features() / weight.global_scale.dim(0) : 1) {}

WeightReader::WeightReader(const LinearWeight& stacked, int64_t expert) : WeightReader(stacked.expert(expert)) {}

double WeightReader::scale_at(int64_t n, int64_t k) const {
  switch (format_) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16: return 1.0;
    case WeightFormat::kFp8Row: return scale_.dim(0) == 1 ? scale_(0) : scale_(n);
    case WeightFormat::kFp8Block: return scale_(n / block_rows_, k / kFp8BlockExtent);
    case WeightFormat::kNvfp4: return scale_(n, k / kNvfp4Group) * global_scale_(n / rows_per_global_scale_);
  }
  return 1.0;
}

}  // namespace foretoken
