#include "backends/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"

namespace foretoken {
namespace {

namespace fs = std::filesystem;

fs::path module_folder(const std::string& name) { return fs::path(FORETOKEN_TEST_MODULES) / name; }

/// Sets an environment variable for the length of a test; null unsets it.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~ScopedVariable() { set(before_.empty() ? nullptr : before_.c_str()); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const char* value) const {
    if (value == nullptr) {
      unsetenv(name_);
    } else {
      setenv(name_, value, 1);
    }
  }
  const char* name_;
  std::string before_;
};

class RegistryTest : public testing::Test {
 protected:
  ScopedVariable backend_{"FORETOKEN_BACKEND", nullptr};
  ScopedVariable isa_{"FORETOKEN_CPU_ISA", nullptr};
  ScopedVariable fake_{"FORETOKEN_TEST_FAKE_GPU", nullptr};
};

const BackendReport* find(const std::vector<BackendReport>& reports, const std::string& name) {
  const auto found = std::ranges::find(reports, name, &BackendReport::name);
  return found == reports.end() ? nullptr : &*found;
}

void expect_error(const BackendRegistry& registry, const std::string& selector, ErrorCode code,
                  const std::vector<std::string>& parts) {
  try {
    static_cast<void>(registry.open(selector));
    FAIL() << selector << " was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " is not in: " << error.what();
    }
  }
}

TEST_F(RegistryTest, HoldsTheCpuWithoutModules) {
  const BackendRegistry registry({});
  const auto reports = registry.report();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].name, "cpu");
  EXPECT_EQ(reports[0].origin, "built in");
  EXPECT_TRUE(reports[0].available);
  ASSERT_EQ(reports[0].devices.size(), 1U);
  EXPECT_EQ(registry.open("auto")->capabilities().backend, "cpu");
  EXPECT_EQ(registry.open("cpu:0", {.num_threads = 2})->capabilities().num_compute_units, 2U);
}

TEST_F(RegistryTest, RefusesBadSelectors) {
  const BackendRegistry registry({});
  expect_error(registry, "tpu", ErrorCode::kInvalidArgument, {"auto, cpu", "tpu"});
  for (const std::string selector : {"cpu:", "auto:0"}) {
    expect_error(registry, selector, ErrorCode::kInvalidArgument, {"NAME:INDEX", selector});
  }
  for (const std::string selector : {"cpu:1", "cpu:-1", "cpu:0x0", "cpu:99999999999", "cpu:a device of this name"}) {
    expect_error(registry, selector, ErrorCode::kInvalidArgument, {"no such device", "one of cpu:0 (", selector});
  }
  expect_error(registry, ":0", ErrorCode::kInvalidArgument, {"no such backend"});
}

TEST_F(RegistryTest, TakesTheEnvironmentWhenNothingIsAskedFor) {
  const BackendRegistry registry({module_folder("fake_gpu")});
  EXPECT_EQ(registry.open("")->capabilities().backend, "vulkan");
  const ScopedVariable variable("FORETOKEN_BACKEND", "cpu");
  EXPECT_EQ(registry.open("")->capabilities().backend, "cpu");
  EXPECT_EQ(registry.open("vulkan")->capabilities().backend, "vulkan");
}

TEST_F(RegistryTest, FindsTheNullModuleOfTheBuildAndNeverTakesItByItself) {
  const BackendRegistry registry({fs::path(FORETOKEN_BUILD_MODULES)});
  const auto reports = registry.report();
  const BackendReport* null = find(reports, "null");
  ASSERT_NE(null, nullptr);
  EXPECT_FALSE(null->available);
  EXPECT_NE(null->origin.find("libforetoken_backend_null.so"), std::string::npos);
  expect_error(registry, "null", ErrorCode::kUnsupported, {"null", "skeleton"});
  EXPECT_NE(registry.open("auto")->capabilities().backend, "null");
}

TEST_F(RegistryTest, FindsTheSkeletonUnderANewName) {
  const BackendRegistry registry({module_folder("mine")});
  const auto reports = registry.report();
  const BackendReport* mine = find(reports, "mine");
  ASSERT_NE(mine, nullptr);
  EXPECT_FALSE(mine->available);
  EXPECT_NE(mine->available.reason().find("the mine backend has no device"), std::string::npos) << mine->available.reason();
  expect_error(registry, "mine", ErrorCode::kUnsupported, {"mine", "skeleton"});
}

TEST_F(RegistryTest, ReportsModulesThatItCannotUse) {
  const fs::path broken = fs::path(testing::TempDir()) / "foretoken_broken_module";
  fs::create_directories(broken);
  std::ofstream(broken / "libforetoken_backend_broken.so") << "no library";
  std::ofstream(broken / "libother.so") << "not looked at";
  const BackendRegistry registry({module_folder("wrong_abi"), module_folder("no_entry"), module_folder("throwing"),
                                  module_folder("second_cpu"), broken, "/nonexistent"});
  const auto reports = registry.report();
  EXPECT_EQ(reports.size(), 6U);
  const auto expect_reason = [&](const std::string& name, const std::string& part) {
    const BackendReport* report = find(reports, name);
    ASSERT_NE(report, nullptr) << name;
    EXPECT_FALSE(report->available);
    EXPECT_NE(report->available.reason().find(part), std::string::npos) << report->available.reason();
    expect_error(registry, name, ErrorCode::kUnsupported, {part});
  };
  expect_reason("wrong_abi", "another version of the backend interface");
  expect_reason("no_entry", "exports no foretoken_backend_module");
  expect_reason("throwing", "no driver: it is away");
  expect_reason("broken", "cannot be loaded");
  EXPECT_NE(reports[4].available.reason().find("there already"), std::string::npos) << reports[4].available.reason();
  EXPECT_EQ(registry.open("cpu")->capabilities().backend, "cpu");
  EXPECT_EQ(registry.open("auto")->capabilities().backend, "cpu");
  fs::remove_all(broken);
}

TEST_F(RegistryTest, AutoPrefersAGpuThatOpens) {
  const BackendRegistry registry({module_folder("fake_gpu")});
  EXPECT_EQ(registry.open("auto")->capabilities().device_name, "first");
  EXPECT_EQ(registry.open("vulkan")->capabilities().device_name, "first");
  EXPECT_EQ(registry.open("vulkan:0")->capabilities().device_name, "software");
  EXPECT_EQ(registry.open("vulkan:2")->capabilities().device_name, "second");
  expect_error(registry, "vulkan:3", ErrorCode::kInvalidArgument, {"vulkan:0 (software), vulkan:1 (first), vulkan:2 (second)"});
}

TEST_F(RegistryTest, ADeviceIsChosenByPartOfItsName) {
  const BackendRegistry registry({module_folder("fake_gpu")});
  EXPECT_EQ(registry.open("vulkan:software")->capabilities().device_name, "software");
  EXPECT_EQ(registry.open("vulkan:SOFT")->capabilities().device_name, "software");
  EXPECT_EQ(registry.open("vulkan:con")->capabilities().device_name, "second");
  const std::string list = "one of vulkan:0 (software), vulkan:1 (first), vulkan:2 (second)";
  expect_error(registry, "vulkan:f", ErrorCode::kInvalidArgument, {"several devices of that name", list, "vulkan:f"});
  expect_error(registry, "vulkan:third", ErrorCode::kInvalidArgument, {"no such device of backend vulkan", list, "vulkan:third"});
}

TEST_F(RegistryTest, ADeviceOfTheCallerIsTakenInsteadOfTheList) {
  const BackendRegistry registry({module_folder("fake_gpu")});
  const ScopedVariable variable("FORETOKEN_TEST_FAKE_GPU", "none");
  const ScopedVariable selector("FORETOKEN_BACKEND", "cpu");
  const BackendOptions options{.vulkan = VulkanDevice{}};
  EXPECT_EQ(registry.open("vulkan", options)->capabilities().device_name, "the caller's");
  EXPECT_EQ(registry.open("", options)->capabilities().device_name, "the caller's");
  for (const char* wrong : {"cpu", "auto", "vulkan:1"}) {
    try {
      static_cast<void>(registry.open(wrong, options));
      ADD_FAILURE() << wrong << " was opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(std::string("'") + wrong + "'"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(static_cast<void>(BackendRegistry({}).open("vulkan", options)), Error);
}

TEST_F(RegistryTest, AutoFallsBackToTheCpu) {
  const BackendRegistry registry({module_folder("fake_gpu")});
  {
    const ScopedVariable variable("FORETOKEN_TEST_FAKE_GPU", "none");
    EXPECT_EQ(registry.open("auto")->capabilities().backend, "cpu");
    expect_error(registry, "vulkan", ErrorCode::kUnsupported, {"vulkan", "no driver"});
  }
  {
    const ScopedVariable variable("FORETOKEN_TEST_FAKE_GPU", "software");
    EXPECT_EQ(registry.open("auto")->capabilities().backend, "cpu");
    expect_error(registry, "vulkan", ErrorCode::kUnsupported, {"no GPU", "vulkan:0", "software"});
    EXPECT_EQ(registry.open("vulkan:0")->capabilities().device_name, "software");
  }
  const ScopedVariable variable("FORETOKEN_TEST_FAKE_GPU", "broken");
  EXPECT_EQ(registry.open("auto")->capabilities().backend, "cpu");
}

TEST_F(RegistryTest, AForcedInstructionSetThatIsUnknownIsAnError) {
  const ScopedVariable variable("FORETOKEN_CPU_ISA", "neon");
  const BackendRegistry registry({});
  expect_error(registry, "cpu", ErrorCode::kUnsupported, {"FORETOKEN_CPU_ISA", "scalar, avx2, avx512 or avx512_vnni", "neon"});
  EXPECT_FALSE(registry.report()[0].available);
}

TEST_F(RegistryTest, AForcedLowerInstructionSetIsUsed) {
  const ScopedVariable variable("FORETOKEN_CPU_ISA", "scalar");
  const BackendRegistry registry({});
  EXPECT_EQ(registry.open("cpu")->capabilities().instruction_set, "scalar");
}

TEST_F(RegistryTest, InstanceLooksWhereItIsTold) {
  const std::string path = std::string("/nonexistent::") + module_folder("fake_gpu").string();
  const ScopedVariable variable("FORETOKEN_BACKEND_PATH", path.c_str());
  EXPECT_NE(find(BackendRegistry::instance().report(), "vulkan"), nullptr);
}

}  // namespace
}  // namespace foretoken
