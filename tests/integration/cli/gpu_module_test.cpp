// A GPU module beside the tool: without a driver it says so, and nothing else changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// The modules that are built: each in the folder of its own build, as they are loaded from there.
std::vector<std::string> built_modules() {
  std::vector<std::string> names;
  std::istringstream list(FORETOKEN_GPU_MODULES);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  return names;
}

class GpuModule : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const json module = report();
    ASSERT_FALSE(module.is_null());
    if (module["available"].get<bool>()) GTEST_SKIP() << "there is a device";
  }

  /// What `devices` says about the backend; null when it did not find the module.
  static json report() {
    const json report = run_tool({"devices", "--json"}, with_modules()).json();
    for (const json& backend : report["backends"]) {
      if (backend["name"] == GetParam()) return backend;
    }
    return {};
  }
  static ToolInput with_modules(const std::string& folder = FORETOKEN_MODULE_FOLDER) {
    return {.environment = {{"FORETOKEN_BACKEND_PATH", folder}}};
  }
  static std::string reason() { return "no usable driver or device: " + GetParam() + "Error"; }
};

TEST_P(GpuModule, DevicesSaysWhyItIsNotAvailable) {
  const json module = report();
  EXPECT_THAT(module["reason"].get<std::string>(), HasSubstr(reason()));
  EXPECT_TRUE(module["devices"].empty());
  const ToolRun run = run_tool({"devices"}, with_modules());
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("not available: " + reason()));
}

TEST_P(GpuModule, AskingForItFailsWithTheReason) {
  const ToolRun run = run_tool({"generate", "--prompt", "a", "--backend", GetParam() + ":0"}, with_modules());
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr(reason()));
}

TEST_P(GpuModule, EverythingElseWorksAsWithoutIt) {
  const auto generate = [](const std::string& folder) {
    return run_tool({"generate", "--token-ids", "5,6,7", "--max-tokens", "8", "--quiet", "--backend", "cpu"},
                    with_modules(folder));
  };
  const ToolRun with = generate(FORETOKEN_MODULE_FOLDER);
  const ToolRun without = generate("/nonexistent");
  EXPECT_EQ(with.status, 0) << with.err;
  EXPECT_EQ(with.out, without.out);
  EXPECT_EQ(with.err, without.err);
}

INSTANTIATE_TEST_SUITE_P(Built, GpuModule, testing::ValuesIn(built_modules()), [](const auto& module) { return module.param; });

}  // namespace
}  // namespace foretoken::test
