// The CUDA module beside the tool: without a driver it says so, and nothing else changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// What `devices` says about CUDA; null when it did not find the module.
json cuda_backend() {
  const json report =
      run_tool({"devices", "--json"}, {.environment = {{"FORETOKEN_BACKEND_PATH", FORETOKEN_CUDA_FOLDER}}}).json();
  for (const json& backend : report["backends"]) {
    if (backend["name"] == "cuda") return backend;
  }
  return {};
}

class CudaModule : public testing::Test {
 protected:
  void SetUp() override {
    const json cuda = cuda_backend();
    ASSERT_FALSE(cuda.is_null());
    if (cuda["available"].get<bool>()) GTEST_SKIP() << "there is a CUDA device";
  }
};

TEST_F(CudaModule, DevicesSaysWhyItIsNotAvailable) {
  const json cuda = cuda_backend();
  EXPECT_THAT(cuda["reason"].get<std::string>(), HasSubstr("no usable driver or device: cudaError"));
  EXPECT_TRUE(cuda["devices"].empty());
  const ToolRun run = run_tool({"devices"}, {.environment = {{"FORETOKEN_BACKEND_PATH", FORETOKEN_CUDA_FOLDER}}});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("not available: no usable driver or device: cudaError"));
}

TEST_F(CudaModule, AskingForItFailsWithTheReason) {
  const ToolRun run = run_tool({"generate", "--prompt", "a", "--backend", "cuda:0"},
                               {.environment = {{"FORETOKEN_BACKEND_PATH", FORETOKEN_CUDA_FOLDER}}});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("no usable driver or device: cudaError"));
}

TEST_F(CudaModule, EverythingElseWorksAsWithoutIt) {
  const auto generate = [](const std::string& folder) {
    return run_tool({"generate", "--token-ids", "5,6,7", "--max-tokens", "8", "--quiet"},
                    {.environment = {{"FORETOKEN_BACKEND_PATH", folder}}});
  };
  const ToolRun with = generate(FORETOKEN_CUDA_FOLDER);
  const ToolRun without = generate("/nonexistent");
  EXPECT_EQ(with.status, 0) << with.err;
  EXPECT_EQ(with.out, without.out);
  EXPECT_EQ(with.err, without.err);
}

}  // namespace
}  // namespace foretoken::test
