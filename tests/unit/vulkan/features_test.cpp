// Which features a device must have. No test here needs one.
#include "backends/vulkan/vulkan_features.h"

#include <gtest/gtest.h>

namespace foretoken::vulkan {
namespace {

Features needed_ones() {
  return {.shader_int64 = true,
          .storage_16_bit = true,
          .storage_8_bit = true,
          .buffer_device_address = true,
          .timeline_semaphore = true,
          .scalar_block_layout = true};
}

TEST(VulkanFeatures, ADeviceWithWhatKernelsNeedLacksNothing) { EXPECT_EQ(missing_features(needed_ones()), ""); }

TEST(VulkanFeatures, WhatADeviceLacksIsNamed) {
  const std::pair<bool Features::*, const char*> names[] = {
      {&Features::shader_int64, "shaderInt64"},
      {&Features::storage_16_bit, "storageBuffer16BitAccess"},
      {&Features::storage_8_bit, "storageBuffer8BitAccess"},
      {&Features::buffer_device_address, "bufferDeviceAddress"},
      {&Features::timeline_semaphore, "timelineSemaphore"},
      {&Features::scalar_block_layout, "scalarBlockLayout"},
  };
  for (const auto& [feature, name] : names) {
    Features features = needed_ones();
    features.*feature = false;
    EXPECT_EQ(missing_features(features), name);
  }
  for (const auto& [feature, name] : names) EXPECT_NE(missing_features({}).find(name), std::string::npos) << name;
}

}  // namespace
}  // namespace foretoken::vulkan
