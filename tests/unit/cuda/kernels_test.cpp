// Which devices run which kernels of CUDA's own.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cuda/ops/stream_kernels.h"
#include "backends/gpu/host/kernel_module.h"

namespace foretoken::cuda {
namespace {

TEST(CudaKernels, NeedTheInstructionsOfTheirFamily) {
  gpu::KernelEntry entry{.name = "any", .params_bytes = 8, .function = nullptr, .num_threads = 32};
  entry.min_architecture = 90;
  EXPECT_EQ(RuntimeKernelCode(entry).absent_reason(80), "its instructions begin with sm_90, this is sm_80");
  EXPECT_EQ(RuntimeKernelCode(entry).absent_reason(120), "");
  entry.min_architecture = 120;
  entry.family_only = true;
  EXPECT_FALSE(RuntimeKernelCode(entry).absent_reason(100).empty());
  EXPECT_EQ(RuntimeKernelCode(entry).absent_reason(121), "");
  EXPECT_EQ(RuntimeKernelCode(entry).absent_reason(130), "its instructions are those of the family of sm_120, this is sm_130");
  RuntimeKernelCode from_ptx(entry);
  from_ptx.set_loaded(80);
  EXPECT_EQ(from_ptx.absent_reason(120), "this build has no code for sm_120, only what sm_80 has");
}

TEST(CudaKernels, BlockScaledProductsWaitToBeAskedFor) {
  const StreamKernels<StreamParams> kernels(RuntimeKernelModule(), "stream_linear", StreamMath::kBlockScaled);
  const Tensor x = Tensor::shape_only(DType::kBF16, {1, 512});
  LinearWeight w;
  w.weight = Tensor::shape_only(DType::kE2M1, {64, 512});
  w.format = WeightFormat::kNvfp4;
  const char* variable = "FORETOKEN_CUDA_BLOCK_SCALED";
  unsetenv(variable);
  EXPECT_FALSE(kernels.accepts(w, x));
  EXPECT_NE(kernels.accepts(w, x).reason().find(variable), std::string::npos);
  setenv(variable, "1", 1);
  EXPECT_TRUE(kernels.accepts(w, x)) << kernels.accepts(w, x).reason();
  w.format = WeightFormat::kFp8Row;
  EXPECT_FALSE(kernels.accepts(w, x));
  unsetenv(variable);
}

}  // namespace
}  // namespace foretoken::cuda
