// How launches describe a weight to the kernels.
#include "backends/gpu/ops/weights.h"

#include <gtest/gtest.h>

namespace foretoken::gpu {
namespace {

LinearWeight weight(WeightFormat format, const Shape& shape, int32_t block_rows = kFp8BlockExtent) {
  LinearWeight w{.weight = Tensor::shape_only(code_dtype(format), shape),
                 .scale = {},
                 .global_scale = {},
                 .format = format,
                 .block_rows = block_rows};
  return w;
}

TEST(GpuWeights, SlicesFillTheDeviceAndNoMore) {
  EXPECT_EQ(num_slices(weight(WeightFormat::kBF16, {248320, 2048}), 248320, kWarpColumns), 1U);
  EXPECT_EQ(num_slices(weight(WeightFormat::kBF16, {512, 2048}), 512, kWarpColumns), 4U) << "a work group has four warps";
  EXPECT_EQ(num_slices(weight(WeightFormat::kBF16, {512, 512}), 512, kWarpColumns), 2U) << "a warp needs a whole step of its own";
  EXPECT_EQ(num_slices(weight(WeightFormat::kBF16, {512, 17}), 512, kWarpColumns), 1U);
  EXPECT_EQ(num_slices(weight(WeightFormat::kBF16, {128, 1024, 2048}), 1024, kWarpColumns), 1U)
      << "several experts are read at a time";
  EXPECT_EQ(num_slices(weight(WeightFormat::kNvfp4, {512, 2048}), 512, kWarpColumns), 2U) << "a step of NVFP4 is 1024 elements";
  // Narrow kernels have more warps, of which NVFP4 wants fewer.
  EXPECT_EQ(num_slices(weight(WeightFormat::kNvfp4, {8192, 2048}), 8192, kWarpColumns), 2U);
  EXPECT_EQ(num_slices(weight(WeightFormat::kNvfp4, {8192, 2048}), 8192, kNarrowWarpColumns), 1U);
  EXPECT_EQ(num_slices(weight(WeightFormat::kBF16, {8192, 2048}), 8192, kNarrowWarpColumns), 4U);
}

TEST(GpuWeights, KernelsAreCalledAfterTheFormat) {
  EXPECT_EQ(kernel_suffix(WeightFormat::kFp8Block), "fp8_block");
  EXPECT_EQ(kernel_suffix(WeightFormat::kNvfp4), "nvfp4");
}

TEST(GpuWeights, VectorsNeedWholeRows) {
  const Tensor x = Tensor::shape_only(DType::kF32, {3, 48});
  EXPECT_TRUE(is_aligned(weight(WeightFormat::kF32, {4, 48}), x));
  EXPECT_TRUE(is_aligned(weight(WeightFormat::kBF16, {4, 48}), x));
  EXPECT_TRUE(is_aligned(weight(WeightFormat::kFp8Row, {4, 48}), x));
  EXPECT_FALSE(is_aligned(weight(WeightFormat::kNvfp4, {4, 48}), x)) << "half a vector of NVFP4 is left over";
  EXPECT_FALSE(is_aligned(weight(WeightFormat::kBF16, {4, 44}), Tensor::shape_only(DType::kF32, {3, 44})));
}

TEST(GpuWeights, ActivationsAreCountedInThirtyTwoBits) {
  EXPECT_TRUE(fits_32_bits(Tensor::shape_only(DType::kF32, {1024, 17408})));
  EXPECT_FALSE(fits_32_bits(Tensor::shape_only(DType::kF32, {300000, 17408})));
}

}  // namespace
}  // namespace foretoken::gpu
