// A device that is lost in the middle of work, by what the driver answers then: an error that says so and names the work, and
// another device of the process goes on.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/vulkan/vulkan_provider.h"
#include "core/error.h"

namespace foretoken::vulkan {
namespace {

/// Puts `stand_in` in the place of a function of Vulkan while it lives.
template <class Function>
class Replaced {
 public:
  Replaced(Function& function, Function stand_in) : function_(function), original_(function) { function_ = stand_in; }
  ~Replaced() { function_ = original_; }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  Function& function_;
  Function original_;
};

VKAPI_ATTR VkResult VKAPI_CALL submit_to_a_lost_device(VkQueue, uint32_t, const VkSubmitInfo*, VkFence) {
  return VK_ERROR_DEVICE_LOST;
}
VKAPI_ATTR VkResult VKAPI_CALL wait_for_a_lost_device(VkDevice, const VkSemaphoreWaitInfo*, uint64_t) {
  return VK_ERROR_DEVICE_LOST;
}
VKAPI_ATTR VkResult VKAPI_CALL wait_in_vain(VkDevice, const VkSemaphoreWaitInfo*, uint64_t) { return VK_TIMEOUT; }

class LostDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (const Availability available = provider_.availability(); !available) GTEST_SKIP() << available.reason();
    backend_ = provider_.open(0, {});
    memory_ = backend_->allocate(kBytes);
    stream_ = backend_->create_stream();
    program_ = backend_->record("draft x3", [this](CommandList& cmd) { cmd.fill(memory_.view(), 3); });
  }

  /// The device is not lost in truth: what it still has to do comes to its end.
  void TearDown() override {
    if (backend_ == nullptr) return;
    const auto stream = backend_->create_stream();
    stream->run([](CommandList&) {});
    stream->synchronize();
  }

  /// Expects that `call` says that the device is lost, at which call of Vulkan, and in which work.
  template <class Call>
  static void expect_lost(const Call& call, const std::string& function) {
    expect_error(call, function + " failed: VK_ERROR_DEVICE_LOST");
  }
  template <class Call>
  static void expect_error(const Call& call, const std::string& text) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDeviceError);
      for (const std::string& part : {text, std::string("draft x3")}) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " is not in: " << error.what();
      }
    }
  }
  /// Runs the Program to its end, of which the stream does not know.
  void run_unnoticed() {
    const auto event = backend_->create_event();
    stream_->run(program_);
    stream_->record(*event);
    event->synchronize();
  }
  /// Frees what is on the device while the driver says that it is lost.
  void drop_all() {
    program_ = {};
    stream_.reset();
    memory_ = {};
    EXPECT_EQ(backend_->allocated_bytes(), 0U);
  }
  void expect_another_device_works() {
    const auto other = provider_.open(0, {});
    const Buffer memory = other->allocate(kBytes);
    const auto stream = other->create_stream();
    stream->run([&](CommandList& cmd) { cmd.fill(memory.view(), 7); });
    std::vector<uint32_t> words(kBytes / sizeof(uint32_t));
    stream->download(memory.view(), std::as_writable_bytes(std::span(words)));
    EXPECT_EQ(words, std::vector<uint32_t>(words.size(), 7));
  }

  static constexpr size_t kBytes = 4096;
  VulkanProvider provider_;
  std::unique_ptr<GpuBackend> backend_;
  Buffer memory_;
  std::unique_ptr<Stream> stream_;
  Program program_;
};

TEST_F(LostDevice, IsReportedByASubmission) {
  {
    const Replaced submit(vkQueueSubmit, &submit_to_a_lost_device);
    expect_lost([this] { stream_->run(program_); }, "vkQueueSubmit");
    drop_all();
  }
  expect_another_device_works();
}

TEST_F(LostDevice, IsReportedByAWait) {
  run_unnoticed();
  {
    const Replaced wait(vkWaitSemaphores, &wait_for_a_lost_device);
    expect_lost([this] { stream_->synchronize(); }, "vkWaitSemaphores");
    drop_all();
  }
  expect_another_device_works();
}

class HungDevice : public LostDevice {
 protected:
  void SetUp() override {
    setenv("FORETOKEN_VULKAN_TIMEOUT", "2", 1);
    LostDevice::SetUp();
    unsetenv("FORETOKEN_VULKAN_TIMEOUT");
  }
  void TearDown() override {
    program_ = {};
    stream_.reset();
    memory_ = {};
    backend_.reset();
  }
};

TEST_F(HungDevice, IsReportedWhereAWaitWouldNeverEnd) {
  run_unnoticed();
  {
    const Replaced wait(vkWaitSemaphores, &wait_in_vain);
    expect_error([this] { stream_->synchronize(); }, "nothing has finished within 2 s (FORETOKEN_VULKAN_TIMEOUT)");
    expect_error([this] { stream_->synchronize(); }, "the device has hung");
    drop_all();
  }
  expect_another_device_works();
}

TEST_F(HungDevice, NeedsATimeInSeconds) {
  setenv("FORETOKEN_VULKAN_TIMEOUT", "2s", 1);
  try {
    static_cast<void>(provider_.open(0, {}));
    ADD_FAILURE() << "2s was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("got 2s"), std::string::npos) << error.what();
  }
  unsetenv("FORETOKEN_VULKAN_TIMEOUT");
}

}  // namespace
}  // namespace foretoken::vulkan
