// The kernels of the module by name, and the table of operators over them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "backends/cuda/ops/stream_kernels.h"
#include "backends/gpu/host/backend.h"
#include "backends/gpu/host/kernel_module.h"
#include "backends/gpu/linear_params.h"
#include "core/error.h"
#include "core/ops/all_ops.h"

namespace foretoken::cuda {
namespace {

TEST(CudaKernels, HaveNamesAndBlocksThatADeviceCanRun) {
  std::set<std::string> names;
  for (const gpu::KernelEntry& entry : all_kernels()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " is there twice";
    EXPECT_NE(entry.function, nullptr) << entry.name;
    EXPECT_GT(entry.params_bytes, 0U) << entry.name;
    EXPECT_LE(entry.params_bytes, 4096U) << entry.name << ": more parameters than a launch can carry";
    EXPECT_EQ(entry.num_threads % 32, 0U) << entry.name;
    EXPECT_LE(entry.num_threads, 1024U) << entry.name;
  }
  EXPECT_EQ(RuntimeKernelModule().size(), names.size());
}

TEST(CudaKernels, HandlesAreCheckedWhenTheyAreResolved) {
  const RuntimeKernelModule module;
  EXPECT_TRUE(module.resolve<gpu::LinearParams>("linear_bf16_r1"));
  EXPECT_THROW(static_cast<void>(module.resolve<gpu::LinearArgmaxParams>("linear_bf16_r1")), Error);
  const auto absent = module.resolve_optional<gpu::LinearParams>("linear_int3_r1");
  EXPECT_FALSE(absent);
  EXPECT_FALSE(absent.absent_reason().empty());
}

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

/// Making the table resolves every kernel that an operator launches, and with it the size of its parameters.
TEST(CudaKernels, EveryOperatorHasAnImplementation) {
  const RuntimeKernelModule module;
  const OpTable table = make_op_table(module);
  for_each_op([&](auto tag) {
    using Op = typename decltype(tag)::type;
    EXPECT_FALSE(table.find(Op::schema().name()).empty()) << Op::schema().name();
  });
}

}  // namespace
}  // namespace foretoken::cuda
