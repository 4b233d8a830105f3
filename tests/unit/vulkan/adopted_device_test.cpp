// A device, a queue and buffers of an engine that uses Vulkan itself.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "backends/ops.h"
#include "backends/vulkan/vulkan_provider.h"
#include "core/error.h"
#include "tests/unit/vulkan/caller.h"

namespace foretoken::vulkan::test {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kWidth = 1024;
constexpr size_t kBytes = kRows * kWidth * sizeof(float);

std::unique_ptr<GpuBackend> open(const VulkanDevice& device) { return VulkanProvider().open(0, {.vulkan = device}); }

void expect_refusal(const VulkanDevice& device, ErrorCode code, const std::string& part) {
  try {
    static_cast<void>(open(device));
    ADD_FAILURE() << "the device was opened, expected " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// The caller's fill, an operator of ours over its memory in a Program, the caller's copy: in the order of the calls, without
/// anything between them.
void run_between(Caller& caller, GpuBackend& backend) {
  const Caller::Memory x = caller.allocate(kBytes);
  const Caller::Memory result = caller.allocate(kBytes);
  {
    const Buffer in = backend.adopt_memory(x.native());
    const Buffer weight = backend.allocate(kWidth * sizeof(float));
    const Buffer out = backend.allocate(kBytes);
    EXPECT_EQ(backend.allocated_bytes(), weight.bytes() + out.bytes());
    const auto stream = backend.create_stream();
    stream->run([&](CommandList& cmd) { cmd.fill(weight.view(), 0); });
    const Program program = backend.record("norm", [&](CommandList& cmd) {
      ops::rms_norm(cmd, in.tensor(DType::kF32, {kRows, kWidth}), weight.tensor(DType::kF32, {kWidth}),
                    out.tensor(DType::kF32, {kRows, kWidth}), 0.0F);
    });
    for (const float value : {3.0F, -2.0F}) {
      caller.fill(x, value);
      stream->run(program);
      caller.copy(out.view().native(), result);
      caller.fill(x, 100.0F);
      caller.wait_idle();
      EXPECT_FLOAT_EQ(result.data[0], std::copysign(1.0F, value));
      EXPECT_FLOAT_EQ(result.data[kRows * kWidth - 1], std::copysign(1.0F, value));
    }
    stream->synchronize();
  }
  EXPECT_EQ(x.data[kWidth], 100.0F);
  caller.free(x);
  caller.free(result);
}

class AdoptedDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!caller_.absent().empty()) GTEST_SKIP() << caller_.absent();
  }
  Caller caller_;
};

TEST_F(AdoptedDevice, RunsBetweenWhatTheCallerSubmits) {
  run_between(caller_, *open(caller_.native()));
  run_between(caller_, *open(caller_.native()));  // the caller's objects are still there
}

TEST_F(AdoptedDevice, MayHaveItsFeaturesInStructuresOfTheirOwn) {
  Caller caller({.separate_structures = true});
  run_between(caller, *open(caller.native()));
}

TEST_F(AdoptedDevice, LivesBesideOneOfOurs) {
  const VulkanProvider provider;
  if (const Availability available = provider.availability(); !available) GTEST_SKIP() << available.reason();
  const auto own = provider.open(0, {});
  const auto adopted = open(caller_.native());
  const auto stream = own->create_stream();
  const Buffer buffer = own->allocate(4096);
  stream->run([&](CommandList& cmd) { cmd.fill(buffer.view(), 7); });
  run_between(caller_, *adopted);
  std::vector<uint32_t> words(1024);
  stream->download(buffer.view(), std::as_writable_bytes(std::span(words)));
  EXPECT_EQ(words, std::vector<uint32_t>(1024, 7));
}

TEST_F(AdoptedDevice, LocksTheQueueRoundEachUse) {
  VulkanDevice device = caller_.native();
  int held = 0;
  int times = 0;
  device.lock_queue = [&] {
    EXPECT_EQ(held++, 0);
    ++times;
  };
  device.unlock_queue = [&] { EXPECT_EQ(--held, 0); };
  {
    const auto backend = open(device);
    run_between(caller_, *backend);
  }
  EXPECT_EQ(held, 0);
  EXPECT_GE(times, 3);
}

TEST_F(AdoptedDevice, BuffersOfTheCallerAreChecked) {
  const auto backend = open(caller_.native());
  const Caller::Memory memory = caller_.allocate(kBytes);
  NativeMemory part = memory.native();
  part.offset = kBytes / 2;
  part.bytes = kBytes / 2;
  const Buffer half = backend->adopt_memory(part);
  const Buffer whole = backend->adopt_memory(memory.native());
  EXPECT_EQ(half.view().address(), whole.view().address() + kBytes / 2);
  const auto stream = backend->create_stream();
  const std::vector<float> values{1.0F, 2.0F, 3.0F, 4.0F};
  stream->upload(std::as_bytes(std::span(values)), half.view().slice(16, 16));
  stream->synchronize();
  EXPECT_EQ(memory.data[kBytes / 2 / sizeof(float) + 5], 2.0F);
  const auto expect_bad = [&](NativeMemory bad, const std::string& text) {
    try {
      static_cast<void>(backend->adopt_memory(bad));
      ADD_FAILURE() << "adopted, expected " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  part.bytes = 4 * kBytes;
  expect_bad(part, "which the VkBuffer has");
  part.bytes = 64;
  part.offset = 4;
  expect_bad(part, "multiple of 16");
  part.handle = 0;
  expect_bad(part, "null");
  caller_.free(memory);
}

TEST_F(AdoptedDevice, MissingFeaturesAreNamed) {
  Caller without({.timeline_semaphore = false, .shader_int64 = false});
  expect_refusal(without.native(), ErrorCode::kUnsupported, "made without timelineSemaphore, shaderInt64");
  Caller separate({.timeline_semaphore = true, .shader_int64 = false, .separate_structures = true});
  expect_refusal(separate.native(), ErrorCode::kUnsupported, "made without shaderInt64");
}

TEST_F(AdoptedDevice, HandlesThatDoNotFitAreRefused) {
  const VulkanDevice good = caller_.native();
  const auto expect_bad = [&](const std::function<void(VulkanDevice&)>& spoil, const std::string& text,
                              ErrorCode code = ErrorCode::kInvalidArgument) {
    VulkanDevice device = good;
    spoil(device);
    expect_refusal(device, code, text);
  };
  expect_bad([](VulkanDevice& d) { d.get_instance_proc_addr = nullptr; }, "get_instance_proc_addr");
  expect_bad([](VulkanDevice& d) { d.instance = nullptr; }, "expected instance");
  expect_bad([](VulkanDevice& d) { d.physical_device = nullptr; }, "physical_device");
  expect_bad([](VulkanDevice& d) { d.device = nullptr; }, "expected device");
  expect_bad([](VulkanDevice& d) { d.queue = nullptr; }, "queue");
  expect_bad([](VulkanDevice& d) { d.device_create_info = nullptr; }, "device_create_info");
  expect_bad([](VulkanDevice& d) { d.queue_family_index = 1000; }, "1000");
  expect_bad([](VulkanDevice& d) { d.lock_queue = [] {}; }, "lock_queue alone");
  expect_bad([](VulkanDevice& d) { d.unlock_queue = [] {}; }, "unlock_queue alone");
  expect_bad([](VulkanDevice& d) { d.api_version = VK_API_VERSION_1_1; }, "Vulkan 1.2", ErrorCode::kUnsupported);
  expect_bad([&](VulkanDevice& d) { d.physical_device = &caller_; }, "of the instance");
  VkApplicationInfo other{};
  other.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  expect_bad([&](VulkanDevice& d) { d.device_create_info = &other; }, "VkDeviceCreateInfo");
  run_between(caller_, *open(good));
}

/// A loader that is not the one whose functions this process has.
PFN_vkVoidFunction VKAPI_CALL foreign_loader(VkInstance, const char*) { return nullptr; }

TEST_F(AdoptedDevice, ASecondLoaderIsRefused) {
  static_cast<void>(open(caller_.native()));
  VulkanDevice device = caller_.native();
  device.get_instance_proc_addr = reinterpret_cast<void*>(foreign_loader);
  expect_refusal(device, ErrorCode::kUnsupported, "there can be one only");
}

/// In a process of its own, whose first Vulkan is the caller's.
TEST(AdoptedDeviceDeathTest, MayComeBeforeOursAndGoBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        {
          Caller caller;
          if (caller.absent().empty()) run_between(caller, *open(caller.native()));
        }
        const VulkanProvider provider;
        if (provider.availability()) {
          const auto own = provider.open(0, {});
          own->create_stream()->synchronize();
        }
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace foretoken::vulkan::test
