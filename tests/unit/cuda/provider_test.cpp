// What CUDA says on a machine without a device, and what its errors look like. No test here needs a device.
#include <gtest/gtest.h>

#include "backends/gpu/host/error.h"
#include "backends/gpu/host/provider.h"
#include "core/error.h"

namespace foretoken::cuda {
namespace {

TEST(CudaProvider, SaysWhyThereIsNoDevice) {
  const RuntimeProvider provider;
  const Availability available = provider.availability();
  if (available) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_EQ(provider.name(), "cuda");
  EXPECT_NE(available.reason().find("cudaError"), std::string::npos) << available.reason();
  EXPECT_TRUE(provider.devices().empty());
  try {
    static_cast<void>(provider.open(0, {}));
    ADD_FAILURE() << "a device was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find(available.reason()), std::string::npos) << error.what();
  }
}

TEST(CudaError, NamesTheCallTheCodeAndTheDetail) {
  check({cudaSuccess, "cudaMalloc"});
  try {
    check({cudaErrorIllegalAddress, "cudaStreamSynchronize"}, "work since the last wait: 'draft x3'");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeviceError);
    const std::string message = error.what();
    for (const char* part : {"cudaStreamSynchronize", "cudaErrorIllegalAddress", "700", "draft x3"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  }
  check_in_destructor({cudaErrorCudartUnloading, "cudaFree"});
}

}  // namespace
}  // namespace foretoken::cuda
