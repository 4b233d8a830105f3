#include "backends/cpu/reference/weight_access.h"

namespace foretoken {
namespace {

constexpr int64_t kFp8BlockExtent = 128;
constexpr int64_t kNvfp4Group = 16;

LinearWeight expert_matrix(const LinearWeight& stacked, int64_t expert) {
  LinearWeight matrix = stacked;
  matrix.weight = stacked.weight.at(expert);
  if (stacked.scale) matrix.scale = stacked.scale.at(expert);
  if (stacked.global_scale && stacked.global_scale.shape().num_elements() > 1) {
    matrix.global_scale = stacked.global_scale.rows(expert, 1);
  }
  return matrix;
}

}  // namespace

WeightReader::WeightReader(const LinearWeight& weight)
    : format_(weight.format), weight_(weight.weight), scale_(weight.scale), global_scale_(weight.global_scale) {}

WeightReader::WeightReader(const LinearWeight& stacked, int64_t expert) : WeightReader(expert_matrix(stacked, expert)) {}

double WeightReader::scale_at(int64_t n, int64_t k) const {
  switch (format_) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16: return 1.0;
    case WeightFormat::kFp8Row: return scale_.dim(0) == 1 ? scale_(0) : scale_(n);
    case WeightFormat::kFp8Block: return scale_(n / kFp8BlockExtent, k / kFp8BlockExtent);
    case WeightFormat::kNvfp4: return scale_(n, k / kNvfp4Group) * global_scale_(0);
  }
  return 1.0;
}

}  // namespace foretoken
