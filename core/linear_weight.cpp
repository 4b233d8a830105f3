#include "core/linear_weight.h"

#include <bit>
#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

[[noreturn]] void fail(std::string_view where, const LinearWeight& weight, const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, std::string(where) + ": " + std::string(to_string(weight.format)) + " " +
                                               weight.weight.shape().to_string() + " " + message);
}

std::string describe(const Tensor& tensor) {
  return tensor ? std::string(to_string(tensor.dtype())) + " " + tensor.shape().to_string() : "absent";
}

void check_scale(std::string_view where, const LinearWeight& weight) {
  const bool is_nvfp4 = weight.format == WeightFormat::kNvfp4;
  const Shape expected = scale_shape(weight.format, weight.weight.shape(), weight.block_rows);
  const bool is_matrix = weight.weight.shape().rank() == 2;
  const bool one_for_all =
      weight.format == WeightFormat::kFp8Row && is_matrix && weight.scale && weight.scale.shape() == Shape{1};
  if (!weight.scale || !(one_for_all || weight.scale.shape() == expected)) {
    fail(where, weight, "needs a scale " + expected.to_string() + ", it is " + describe(weight.scale));
  }
  const DType dtype = weight.scale.dtype();
  if (is_nvfp4 ? dtype != DType::kE4M3 : dtype != DType::kF32 && dtype != DType::kBF16) {
    fail(where, weight,
         std::string("needs a scale of ") + (is_nvfp4 ? "E4M3" : "F32 or BF16") + ", it is " + describe(weight.scale));
  }
  if (!weight.scale.is_contiguous()) fail(where, weight, "needs a contiguous scale");
}

void check_global_scale(std::string_view where, const LinearWeight& weight) {
  if (weight.in_features() % kNvfp4Group != 0) fail(where, weight, "must have columns in groups of 16");
  const Tensor& scale = weight.global_scale;
  const size_t rank = weight.weight.shape().rank();
  const bool fits = scale && scale.dtype() == DType::kF32 && scale.shape().rank() == rank - 1 &&
                    (rank == 2 || scale.dim(0) == weight.weight.dim(0)) && scale.dim(rank - 2) > 0 &&
                    weight.out_features() % scale.dim(rank - 2) == 0;
  if (!fits) {
    fail(where, weight,
         "needs an F32 global scale for equal groups of rows" + std::string(rank == 3 ? ", for each expert" : "") + ", it is " +
             describe(scale));
  }
}

}  // namespace

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32: return "f32";
    case WeightFormat::kBF16: return "bf16";
    case WeightFormat::kFp8Row: return "fp8-row";
    case WeightFormat::kFp8Block: return "fp8-block";
    case WeightFormat::kNvfp4: return "nvfp4";
  }
  return "unknown";
}

DType code_dtype(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32: return DType::kF32;
    case WeightFormat::kBF16: return DType::kBF16;
    case WeightFormat::kFp8Row:
    case WeightFormat::kFp8Block: return DType::kE4M3;
    case WeightFormat::kNvfp4: return DType::kE2M1;
  }
  return DType::kBF16;
}

LinearWeight LinearWeight::expert(int64_t expert_idx) const {
  LinearWeight matrix = *this;
  matrix.weight = weight.at(expert_idx);
  if (scale) matrix.scale = scale.at(expert_idx);
  if (global_scale) matrix.global_scale = global_scale.at(expert_idx);
  return matrix;
}

Shape scale_shape(WeightFormat format, const Shape& shape, int64_t block_rows) {
  const size_t rank = shape.rank();
  const int64_t n = shape[rank - 2];
  const int64_t k = shape[rank - 1];
  const bool is_stack = rank == 3;
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16: return {};
    case WeightFormat::kFp8Row: return is_stack ? Shape{shape[0], n} : Shape{n};
    case WeightFormat::kFp8Block: {
      const int64_t rows = ceil_div(n, block_rows);
      const int64_t columns = ceil_div(k, kFp8BlockExtent);
      return is_stack ? Shape{shape[0], rows, columns} : Shape{rows, columns};
    }
    case WeightFormat::kNvfp4: return is_stack ? Shape{shape[0], n, k / kNvfp4Group} : Shape{n, k / kNvfp4Group};
  }
  return {};
}

void check_weight(std::string_view where, const LinearWeight& weight) {
  const size_t rank = weight.weight.shape().rank();
  if (rank != 2 && rank != 3) fail(where, weight, "must be a matrix or a stack of matrices");
  if (weight.weight.dtype() != code_dtype(weight.format)) {
    fail(where, weight, "must hold " + std::string(to_string(code_dtype(weight.format))) + ", it is " + describe(weight.weight));
  }
  const bool is_plain = weight.format == WeightFormat::kF32 || weight.format == WeightFormat::kBF16;
  if (is_plain ? bool(weight.scale) || bool(weight.global_scale) : weight.format != WeightFormat::kNvfp4 && weight.global_scale) {
    fail(where, weight, "takes no such scales");
  }
  if (is_plain) return;
  if (weight.format == WeightFormat::kFp8Block && (weight.block_rows < 1 || weight.block_rows > kFp8BlockExtent ||
                                                   !std::has_single_bit(static_cast<uint32_t>(weight.block_rows)))) {
    fail(where, weight, "has blocks of " + std::to_string(weight.block_rows) + " rows, expected a power of two up to 128");
  }
  if (weight.format == WeightFormat::kNvfp4) check_global_scale(where, weight);
  check_scale(where, weight);
}

}  // namespace foretoken
