// What Vulkan says on a machine without a driver, what its errors look like, and what becomes of complaints of the validation
// layer.
#include "backends/vulkan/vulkan_provider.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/vulkan/vulkan_error.h"
#include "core/error.h"

namespace foretoken::vulkan {
namespace {

/// Expects that nothing can be opened, for a reason that has `part`.
void expect_no_device(const VulkanProvider& provider, const std::string& part) {
  const Availability available = provider.availability();
  ASSERT_FALSE(available);
  EXPECT_NE(available.reason().find(part), std::string::npos) << available.reason();
  EXPECT_TRUE(provider.devices().empty());
  try {
    static_cast<void>(provider.open(0, {}));
    ADD_FAILURE() << "a device was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find(available.reason()), std::string::npos) << error.what();
  }
}

/// In a process of its own, because a loader reads its variables once.
template <class Body>
void in_child(const Body& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        body();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(VulkanProviderDeathTest, SaysThatThereIsNoDriver) {
  in_child([] {
    setenv("VK_ICD_FILENAMES", "/nonexistent/driver.json", 1);
    setenv("VK_DRIVER_FILES", "/nonexistent/driver.json", 1);
    const VulkanProvider provider;
    EXPECT_EQ(provider.name(), "vulkan");
    const std::string reason = provider.availability().reason();
    expect_no_device(provider, reason.starts_with("no Vulkan loader") ? "libvulkan" : "no Vulkan driver");
  });
}

TEST(VulkanProvider, NamesTheDevicesThatThereAre) {
  const VulkanProvider provider;
  if (const Availability available = provider.availability(); !available) GTEST_SKIP() << available.reason();
  const auto devices = provider.devices();
  ASSERT_FALSE(devices.empty());
  bool is_past_gpus = false;
  for (const Capabilities& device : devices) {
    EXPECT_EQ(device.backend, "vulkan");
    EXPECT_FALSE(device.device_name.empty());
    if (device.kind == DeviceKind::kCpu) is_past_gpus = true;
    EXPECT_TRUE(!is_past_gpus || device.kind == DeviceKind::kCpu) << "devices that are CPUs come last";
  }
  try {
    static_cast<void>(provider.open(static_cast<int>(devices.size()), {}));
    ADD_FAILURE() << "a device was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
  }
}

TEST(VulkanError, NamesTheCallTheCodeAndTheDetail) {
  check(VK_SUCCESS, "vkQueueSubmit");
  const auto thrown_by = [](VkResult result) {
    try {
      check(result, "vkWaitSemaphores", "work since the last wait: 'draft x3'");
    } catch (const Error& error) {
      const std::string message = error.what();
      for (const char* part : {"vkWaitSemaphores", "draft x3"}) EXPECT_NE(message.find(part), std::string::npos) << message;
      return std::pair(error.code(), message);
    }
    return std::pair(ErrorCode::kInternalError, std::string("nothing was thrown"));
  };
  const auto [lost_code, lost] = thrown_by(VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(lost_code, ErrorCode::kDeviceError);
  EXPECT_NE(lost.find("VK_ERROR_DEVICE_LOST (-4)"), std::string::npos) << lost;
  EXPECT_EQ(thrown_by(VK_ERROR_OUT_OF_DEVICE_MEMORY).first, ErrorCode::kOutOfMemory);
  EXPECT_EQ(thrown_by(VK_ERROR_OUT_OF_HOST_MEMORY).first, ErrorCode::kOutOfMemory);
  check_in_destructor(VK_ERROR_DEVICE_LOST, "vkQueueWaitIdle");
}

TEST(VulkanValidation, AComplaintIsThrownOnce) {
  std::unique_ptr<Instance> instance;
  try {
    instance = std::make_unique<Instance>();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  instance->check_validation();
  instance->complain("the first");
  instance->complain("the second");
  try {
    instance->check_validation();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the first"), std::string::npos) << error.what();
  }
  instance->check_validation();
}

}  // namespace
}  // namespace foretoken::vulkan
