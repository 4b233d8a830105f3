// Which demands of a shader reach a device that cannot meet them all.
#include "backends/vulkan/float_modes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/vulkan/shader_entry.h"

namespace foretoken::vulkan {
namespace {

bool holds(const std::vector<uint32_t>& code, uint32_t word) { return std::ranges::find(code, word) != code.end(); }

TEST(VulkanFloatModes, AreLeftOutWhereADeviceLacksThem) {
  const std::vector<uint32_t> header{0x07230203, 0x00010500, 0, 10, 0};
  const std::vector<uint32_t> body{2U << 16 | 17, 1,  2U << 16 | 17, 4464, 2U << 16 | 17, 4466, 4U << 16 | 16, 5,
                                   4459,          32, 4U << 16 | 16, 5,    4461,          32};
  std::vector<uint32_t> code = header;
  code.insert(code.end(), body.begin(), body.end());
  EXPECT_EQ(with_float_modes(code, {.keeps_subnormals = true, .keeps_nan = true}), code);
  const auto no_subnormals = with_float_modes(code, {.keeps_subnormals = false, .keeps_nan = true});
  EXPECT_EQ(no_subnormals.size(), code.size() - 6);
  EXPECT_FALSE(holds(no_subnormals, 4464) || holds(no_subnormals, 4459));
  EXPECT_TRUE(holds(no_subnormals, 4466) && holds(no_subnormals, 4461));
  const auto neither = with_float_modes(code, {});
  EXPECT_EQ(neither.size(), code.size() - 12);
}

TEST(VulkanFloatModes, CodeThatIsCutOffStaysAsItIs) {
  const std::vector<uint32_t> code{0x07230203, 0x00010500, 0, 10, 0, 9U << 16 | 17, 4464};
  EXPECT_EQ(with_float_modes(code, {}), code);
  EXPECT_EQ(with_float_modes(std::span(code).first(3), {}).size(), 3U);
}

TEST(VulkanFloatModes, EveryShaderAsksForThem) {
  for (const ShaderEntry& entry : all_shaders()) {
    for (const std::span<const uint32_t> code : {entry.code.pushed, entry.code.in_memory}) {
      EXPECT_EQ(with_float_modes(code, {}).size() + 12, code.size()) << entry.name;
    }
  }
}

}  // namespace
}  // namespace foretoken::vulkan
