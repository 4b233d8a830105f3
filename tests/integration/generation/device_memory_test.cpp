// What happens when the memory of a device runs out: on the device that FORETOKEN_TEST_BACKEND selects, where memory is its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <regex>

#include "core/error.h"
#include "speculative/engine.h"
#include "tests/integration/generation/test_model.h"

namespace foretoken::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr size_t kGiB = size_t{1} << 30;
constexpr const char* kModel = "synth:qwen3.5-0.8b:layers=4";

/// What `call` complains about; empty when it does not.
std::string out_of_memory(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
    return error.what();
  }
  return {};
}

class DeviceMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    backend_ = open_test_device();
    if (backend_->capabilities().kind != DeviceKind::kDiscreteGpu) GTEST_SKIP() << "the memory of this device is the host's";
    load(16);  // what the driver takes at first use is not the engine's
  }

  /// Free bytes as the device tells them. They may grow: the driver keeps a little for later, and gives it back when memory is
  /// short.
  size_t free_bytes() {
    const std::string message = out_of_memory([this] { static_cast<void>(backend_->allocate(size_t{1} << 46)); });
    std::smatch found;
    EXPECT_TRUE(std::regex_search(message, found, std::regex("([0-9]+) bytes are free"))) << message;
    return found.empty() ? 0 : std::stoull(found[1]);
  }
  /// Takes memory until about `bytes` are free.
  void leave_free(size_t bytes) {
    for (const size_t piece : {kGiB, kGiB / 16}) {
      while (free_bytes() > bytes + piece) ballast_.push_back(backend_->allocate(piece));
    }
  }
  void load(int64_t max_tokens) {
    EngineOptions options;
    options.model = kModel;
    options.backend = std::getenv("FORETOKEN_TEST_BACKEND");
    options.max_speculative_tokens = 3;
    Engine engine(options);
    engine.load(16, max_tokens);
  }

  std::unique_ptr<GpuBackend> backend_;
  std::vector<Buffer> ballast_;
};

TEST_F(DeviceMemoryTest, WeightsThatDoNotFitAreRefusedAndNothingLeaks) {
  const size_t free_at_first = free_bytes();
  leave_free(kGiB / 4);
  const size_t free_before = free_bytes();
  const std::string message = out_of_memory([this] { load(16); });
  EXPECT_THAT(message, AllOf(HasSubstr(std::string(kModel) + " needs weights of "),
                             ContainsRegex("cannot allocate [0-9]+ bytes of device memory, [0-9]+ bytes are free")));
  EXPECT_GE(free_bytes(), free_before);
  ballast_.clear();
  EXPECT_GE(free_bytes(), free_at_first);
  load(16);
}

TEST_F(DeviceMemoryTest, CachesThatDoNotFitAreRefusedWhenTheModelIsLoaded) {
  leave_free(3 * kGiB / 2);
  const size_t free_before = free_bytes();
  load(16);
  const std::string message = out_of_memory([this] { load(240000); });
  EXPECT_THAT(message, AllOf(ContainsRegex("for 2400[0-9]+ tokens, caches of [0-9]+ bytes: "), HasSubstr("bytes are free")));
  EXPECT_GE(free_bytes(), free_before);
}

TEST_F(DeviceMemoryTest, AllocationsGoOnUntilItIsFullAndComeBack) {
  const size_t free_before = free_bytes();
  const std::string message = out_of_memory([this] {
    for (;;) ballast_.push_back(backend_->allocate(4 * kGiB));
  });
  EXPECT_THAT(message, ContainsRegex("cannot allocate 4294967296 bytes of device memory, [0-9]+ bytes are free"));
  EXPECT_GE(ballast_.size(), 1U);
  ballast_.clear();
  EXPECT_GE(free_bytes(), free_before);
}

}  // namespace
}  // namespace foretoken::test
