// The kernels of a module by name, and the table of operators over them. Compiled for each backend of this kind.
#include <gtest/gtest.h>

#include <set>

#include "backends/gpu/host/backend.h"
#include "backends/gpu/host/kernel_module.h"
#include "backends/gpu/linear_params.h"
#include "core/error.h"
#include "core/ops/all_ops.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

TEST(GpuKernels, HaveNamesAndBlocksThatADeviceCanRun) {
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

TEST(GpuKernels, HandlesAreCheckedWhenTheyAreResolved) {
  const RuntimeKernelModule module;
  EXPECT_TRUE(module.resolve<gpu::LinearParams>("linear_bf16_r2"));
  EXPECT_THROW(static_cast<void>(module.resolve<gpu::LinearArgmaxParams>("linear_bf16_r2")), Error);
  const auto absent = module.resolve_optional<gpu::LinearParams>("linear_int3_r1");
  EXPECT_FALSE(absent);
  EXPECT_FALSE(absent.absent_reason().empty());
}

TEST(GpuKernels, MissingInstructionsAreTheReasonOfAnAbsentKernel) {
  gpu::KernelEntry entry = all_kernels().front();
  EXPECT_EQ(RuntimeKernelCode(entry).absent_reason(UINT32_MAX - 1), "");
  entry.missing_instructions = [](uint32_t architecture) { return architecture < 7 ? std::string("no sevens") : std::string(); };
  EXPECT_EQ(RuntimeKernelCode(entry).absent_reason(6), "no sevens");
  EXPECT_EQ(RuntimeKernelCode(entry).absent_reason(7), "");
}

/// Making the table resolves every kernel that an operator launches, and with it the size of its parameters.
TEST(GpuKernels, EveryOperatorHasAnImplementation) {
  const RuntimeKernelModule module;
  const OpTable table = make_op_table(module);
  for_each_op([&](auto tag) {
    using Op = typename decltype(tag)::type;
    EXPECT_FALSE(table.find(Op::schema().name()).empty()) << Op::schema().name();
  });
}

}  // namespace
}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
