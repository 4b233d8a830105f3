// A GPU module beside the tool: without a driver, or without a loader, it says so, and nothing else changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// A machine on which a module can use nothing: what `environment` adds to the one that the test runs on.
struct Lack {
  std::string name;
  std::string module;
  std::map<std::string, std::string> environment;
  std::string reason;
};

/// For the names of tests and messages.
void PrintTo(const Lack& lack, std::ostream* out) { *out << lack.name; }

/// Of the modules that are built: each in the folder of its own build, as they are loaded from there.
std::vector<Lack> lacks_of_modules() {
  const std::string no_driver = "no usable driver or device: ";
  const std::string nowhere = "/nonexistent/driver.json";
  const std::vector<Lack> all{
      {.name = "cuda", .module = "cuda", .environment = {}, .reason = no_driver + "cudaError"},
      {.name = "hip", .module = "hip", .environment = {}, .reason = no_driver + "hipError"},
      {.name = "vulkan_without_driver",
       .module = "vulkan",
       .environment = {{"VK_DRIVER_FILES", nowhere}, {"VK_ICD_FILENAMES", nowhere}},
       .reason = "no Vulkan driver"},
      {.name = "vulkan_without_loader",
       .module = "vulkan",
       .environment = {{"LD_LIBRARY_PATH", FORETOKEN_NO_LIBRARIES}},
       .reason = "no Vulkan loader"},
  };
  const std::string built = std::string(",") + FORETOKEN_GPU_MODULES + ",";
  std::vector<Lack> lacks;
  std::ranges::copy_if(all, std::back_inserter(lacks),
                       [&](const Lack& lack) { return built.find("," + lack.module + ",") != std::string::npos; });
  return lacks;
}

class GpuModule : public testing::TestWithParam<Lack> {
 protected:
  void SetUp() override {
    const json module = report();
    ASSERT_FALSE(module.is_null());
    if (module["available"].get<bool>() && GetParam().environment.empty()) GTEST_SKIP() << "there is a device";
    const json whole = report({});
    if (!whole["available"].get<bool>() && whole["reason"].get<std::string>().starts_with("no Vulkan loader")) {
      if (GetParam().reason != "no Vulkan loader") GTEST_SKIP() << whole["reason"].get<std::string>();
    }
  }

  /// What `devices` says about the backend; null when it did not find the module.
  static json report(const std::map<std::string, std::string>& environment = GetParam().environment) {
    const json report = run_tool({"devices", "--json"}, with_modules(FORETOKEN_MODULE_FOLDER, environment)).json();
    for (const json& backend : report["backends"]) {
      if (backend["name"] == GetParam().module) return backend;
    }
    return {};
  }
  static ToolInput with_modules(const std::string& folder = FORETOKEN_MODULE_FOLDER,
                                std::map<std::string, std::string> environment = GetParam().environment) {
    environment["FORETOKEN_BACKEND_PATH"] = folder;
    return {.environment = std::move(environment)};
  }
  static std::string reason() { return GetParam().reason; }
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
  const ToolRun run = run_tool({"generate", "--prompt", "a", "--backend", GetParam().module + ":0"}, with_modules());
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

INSTANTIATE_TEST_SUITE_P(Built, GpuModule, testing::ValuesIn(lacks_of_modules()),
                         [](const auto& lack) { return lack.param.name; });

}  // namespace
}  // namespace foretoken::test
