// Names of AMD's architectures, and the formats that go with them.
#include "backends/hip/hip_architecture.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace foretoken::hip {
namespace {

const WeightFormatSupport& nvfp4(const std::vector<WeightFormatSupport>& formats) {
  return *std::ranges::find(formats, WeightFormat::kNvfp4, &WeightFormatSupport::format);
}

TEST(HipArchitecture, IsReadFromItsName) {
  EXPECT_EQ(amd_architecture("gfx90a:sramecc+:xnack-"), 0x90aU);
  EXPECT_EQ(amd_architecture("gfx1100"), 0x1100U);
  EXPECT_EQ(amd_architecture("sm_90"), 0U);
  EXPECT_EQ(amd_architecture("gfx"), 0U);
  EXPECT_EQ(amd_architecture("gfx90z"), 0U);
  EXPECT_EQ(amd_name(0x90a), "gfx90a");
  EXPECT_EQ(amd_name(amd_architecture("gfx1200")), "gfx1200");
}

TEST(HipArchitecture, Nvfp4IsWhereTheDeviceIsCapable) {
  for (const char* name : {"gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1200"}) {
    EXPECT_TRUE(nvfp4(amd_weight_formats(amd_architecture(name))).storable) << name;
  }
  for (const char* name : {"gfx803", "gfx906", "gfx908", "gfx90c"}) {
    const WeightFormatSupport support = nvfp4(amd_weight_formats(amd_architecture(name)));
    EXPECT_FALSE(support.storable) << name;
    EXPECT_NE(support.storable.reason().find(name), std::string::npos) << support.storable.reason();
    EXPECT_FALSE(support.fast) << name;
  }
}

TEST(HipArchitecture, MatrixInstructionsAreWhereTheyAreDocumented) {
  for (const char* name : {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201"}) {
    EXPECT_EQ(amd_missing_matrix_instructions(amd_architecture(name)), "") << name;
  }
  for (const char* name : {"gfx906", "gfx908", "gfx90c", "gfx1030", "gfx1250"}) {
    EXPECT_NE(amd_missing_matrix_instructions(amd_architecture(name)).find(name), std::string::npos) << name;
  }
}

TEST(HipArchitecture, OtherFormatsAreEverywhere) {
  for (const WeightFormatSupport& support : amd_weight_formats(0x906)) {
    EXPECT_EQ(static_cast<bool>(support.storable), support.format != WeightFormat::kNvfp4) << to_string(support.format);
  }
}

}  // namespace
}  // namespace foretoken::hip
