// What a backend says on a machine without a device, and what its errors look like. No test here needs a device. Compiled for
// each backend of this kind.
#include "backends/gpu/host/provider.h"

#include <gtest/gtest.h>

#include "backends/gpu/host/error.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

TEST(GpuProvider, SaysWhyThereIsNoDevice) {
  const RuntimeProvider provider;
  const Availability available = provider.availability();
  if (available) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(provider.name(), runtime::kName);
  EXPECT_NE(available.reason().find(std::string(runtime::kName) + "Error"), std::string::npos) << available.reason();
  EXPECT_TRUE(provider.devices().empty());
  try {
    static_cast<void>(provider.open(0, {}));
    ADD_FAILURE() << "a device was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find(available.reason()), std::string::npos) << error.what();
  }
}

TEST(GpuError, NamesTheCallTheCodeAndTheDetail) {
  check({runtime::kSuccess, "Malloc"});
  try {
    check({runtime::kNotReady, "StreamSynchronize"}, "work since the last wait: 'draft x3'");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeviceError);
    const std::string message = error.what();
    for (const char* part : {"StreamSynchronize", "ErrorNotReady", "600", "draft x3"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  }
  check_in_destructor({runtime::kUnloading, "Free"});
}

}  // namespace
}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
