#include "core/ops/quantize.h"

#include <string>

#include "core/error.h"
#include "core/ops/activations.h"

namespace foretoken {
namespace {

const std::vector<DType> kPlainDtypes = {DType::kF32, DType::kBF16};
const std::vector<DType> kE4M3Only = {DType::kE4M3};
const std::vector<DType> kE2M1Only = {DType::kE2M1};

void check_scale_shape(std::string_view where, WeightFormat format, const Tensor& x, const Tensor& scale) {
  const Shape expected = scale_shape(format, x.shape());
  if (scale.shape() == expected) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "scale does not fit x " + x.shape().to_string(),
                                            .where = std::string(where),
                                            .expected = expected.to_string(),
                                            .got = scale.shape().to_string()});
}

}  // namespace

void QuantizeFp8Block::validate() const { check_scale_shape("quantize_fp8_block", WeightFormat::kFp8Block, x, scale); }

void QuantizeNvfp4::validate() const {
  if (x.dim(1) % kNvfp4Group != 0) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "columns do not divide into groups of 16",
                                              .where = "quantize_nvfp4",
                                              .expected = "a multiple of 16",
                                              .got = std::to_string(x.dim(1))});
  }
  check_scale_shape("quantize_nvfp4", WeightFormat::kNvfp4, x, scale);
}

void Dequantize::validate() const { check_weight("dequantize: weight", w); }

const OpSchema& AbsMax::schema() {
  static const OpSchema schema = OpSchema("abs_max")
                                     .in("x", {"N", "K"}, kPlainDtypes)
                                     .strided()
                                     .out("amax", {"1"}, kF32Only)
                                     .workspace("workspace")
                                     .tolerance(DType::kF32, 0.0);
  return schema;
}

const OpSchema& QuantizeFp8Row::schema() {
  static const OpSchema schema = OpSchema("quantize_fp8_row")
                                     .in("x", {"N", "K"}, kPlainDtypes)
                                     .strided()
                                     .out("codes", {"N", "K"}, kE4M3Only)
                                     .out("scale", {"N"}, kF32Only)
                                     .tolerance(DType::kF32, 0.0);
  return schema;
}

const OpSchema& QuantizeFp8Block::schema() {
  static const OpSchema schema = OpSchema("quantize_fp8_block")
                                     .in("x", {"N", "K"}, kPlainDtypes)
                                     .strided()
                                     .out("codes", {"N", "K"}, kE4M3Only)
                                     .out("scale", {"..."}, kPlainDtypes)
                                     .tolerance(DType::kF32, 0.0)
                                     .tolerance(DType::kBF16, 0.0);
  return schema;
}

const OpSchema& QuantizeNvfp4::schema() {
  static const OpSchema schema = OpSchema("quantize_nvfp4")
                                     .in("x", {"N", "K"}, kPlainDtypes)
                                     .strided()
                                     .in("amax", {"1"}, kF32Only)
                                     .in("column_weight", {"K"}, kF32Only)
                                     .optional()
                                     .out("codes", {"N", "K"}, kE2M1Only)
                                     .out("scale", {"..."}, kE4M3Only)
                                     .out("global_scale", {"1"}, kF32Only)
                                     .tolerance(DType::kF32, 0.0);
  return schema;
}

const OpSchema& Dequantize::schema() {
  static const OpSchema schema = OpSchema("dequantize")
                                     .in("weight", {"N", "K"}, kLinearWeightDtypes)
                                     .in("weight_scale", {"..."}, kScaleDtypes)
                                     .optional()
                                     .in("weight_global_scale", {"..."}, kF32Only)
                                     .optional()
                                     .out("out", {"N", "K"}, kPlainDtypes)
                                     .tolerance(DType::kF32, 0.0)
                                     .tolerance(DType::kBF16, 0.0);
  return schema;
}

}  // namespace foretoken
