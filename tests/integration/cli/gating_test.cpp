// What the CPU can do depends on the instruction set in use; `devices` says so, and what is missing is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/cli/tool.h"

namespace foretoken::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kFormats[] = {"f32", "bf16", "fp8-row", "fp8-block", "nvfp4"};

class InstructionSetTest : public ::testing::TestWithParam<const char*> {
 protected:
  /// Skips where this machine lacks the instruction set.
  [[nodiscard]] static ToolRun run_with_isa(const std::vector<std::string>& words) {
    return run_tool(words, {.environment = {{"FORETOKEN_CPU_ISA", GetParam()}}});
  }
  void SetUp() override {
    const json cpu = run_with_isa({"devices", "--json"}).json()["backends"][0];
    if (!cpu["available"].get<bool>()) GTEST_SKIP() << cpu["reason"];
    device_ = cpu["devices"][0];
  }

  json device_;
};

TEST_P(InstructionSetTest, DevicesListEveryFormat) {
  EXPECT_EQ(device_["instruction_set"], GetParam());
  const std::string text = run_with_isa({"devices"}).out;
  ASSERT_EQ(device_["weight_formats"].size(), std::size(kFormats));
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    const json& format = device_["weight_formats"][i];
    EXPECT_EQ(format["format"], kFormats[i]);
    EXPECT_THAT(text, HasSubstr("    " + std::string(kFormats[i]) + " "));
    if (!format["storable"]["available"].get<bool>()) {
      EXPECT_THAT(text, HasSubstr("not storable (" + format["storable"]["reason"].get<std::string>() + ")"));
    }
  }
}

TEST_P(InstructionSetTest, OnlyTheScalarKernelsLackNvfp4) {
  for (const json& format : device_["weight_formats"]) {
    const bool is_missing = format["format"] == "nvfp4" && std::string(GetParam()) == "scalar";
    EXPECT_EQ(format["storable"]["available"].get<bool>(), !is_missing) << format;
    if (is_missing) {
      EXPECT_THAT(format["storable"]["reason"].get<std::string>(), HasSubstr("needs AVX2"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, InstructionSetTest, ::testing::Values("scalar", "avx2", "avx512", "avx512_vnni"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(BenchKernels, RefuseAFormatThatTheDeviceLacks) {
  const ToolRun run =
      run_tool({"bench", "kernels", "--backend", "cpu", "--format", "nvfp4", "--op", "linear", "--shape", "64x64"},
               {.environment = {{"FORETOKEN_CPU_ISA", "scalar"}}});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("needs AVX2"), HasSubstr("f32, bf16, fp8-row, fp8-block"), HasSubstr("got nvfp4")));
}

TEST(Dispatch, LogsWhoWasPassedOverAndWhy) {
  const ToolRun run = run_tool({"generate", "--prompt", "a", "--max-tokens", "2", "--backend", "cpu", "--quiet"},
                               {.environment = {{"FORETOKEN_LOG", "dispatch"}}});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr("passed over: "));
  EXPECT_THAT(run.err, HasSubstr("linear: "));
}

}  // namespace
}  // namespace foretoken::test
