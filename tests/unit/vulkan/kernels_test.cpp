// The shaders of the module by name, and the table of operators over them. No test here needs a device.
#include "backends/vulkan/kernel_module.h"

#include <gtest/gtest.h>

#include <set>

#include "backends/gpu/norm_params.h"
#include "backends/vulkan/vulkan_backend.h"
#include "core/error.h"
#include "core/ops/all_ops.h"

namespace foretoken::vulkan {
namespace {

constexpr uint32_t kSpirvMagic = 0x07230203;

TEST(VulkanKernels, HaveNamesCodeAndGroupsThatADeviceCanRun) {
  std::set<std::string> names;
  for (const ShaderEntry& entry : all_shaders()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " is there twice";
    for (const std::span<const uint32_t> code : {entry.code.pushed, entry.code.in_memory}) {
      ASSERT_GT(code.size(), 5U) << entry.name;
      EXPECT_EQ(code[0], kSpirvMagic) << entry.name;
    }
    EXPECT_GT(entry.params_bytes, 0U) << entry.name;
    EXPECT_LE(entry.params_bytes, 256U) << entry.name << ": more than the push constants of any common device";
    EXPECT_EQ(entry.num_threads % 32, 0U) << entry.name;
    EXPECT_LE(entry.num_threads, 1024U) << entry.name;
  }
  EXPECT_EQ(VulkanKernelModule().size(), names.size());
}

TEST(VulkanKernels, HandlesAreCheckedWhenTheyAreResolved) {
  const VulkanKernelModule module;
  EXPECT_TRUE(module.resolve<gpu::RmsNormParams>("rms_norm"));
  EXPECT_THROW(static_cast<void>(module.resolve<gpu::RopeParams>("rms_norm")), Error);
  const auto absent = module.resolve_optional<gpu::RmsNormParams>("rms_norm_of_another_kind");
  EXPECT_FALSE(absent);
  EXPECT_EQ(absent.absent_reason(), "no such Vulkan kernel");
}

/// Making the table resolves every kernel that an operator launches, and with it the size of its parameters.
TEST(VulkanKernels, EveryOperatorHasAnImplementation) {
  const VulkanKernelModule module;
  const OpTable table = make_op_table(module);
  for_each_op([&](auto tag) {
    using Op = typename decltype(tag)::type;
    EXPECT_FALSE(table.find(Op::schema().name()).empty()) << Op::schema().name();
  });
}

}  // namespace
}  // namespace foretoken::vulkan
