// A drafter of the C API on a Vulkan device of the caller, fed from the caller's buffers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "foretoken.h"
#include "tests/unit/vulkan/caller.h"

namespace foretoken::vulkan::test {
namespace {

constexpr int64_t kRows = 6;
constexpr int32_t kDrafts = 4;
constexpr size_t kHidden = 192;  // of tiny-dense

void expect_ok(foretoken_status status) { ASSERT_EQ(status, FORETOKEN_OK) << foretoken_last_error(); }

std::vector<float> hidden_states() {
  std::vector<float> states(kRows * kHidden);
  for (size_t i = 0; i < states.size(); ++i) states[i] = static_cast<float>(i * 37 % 101) / 50.0F - 1.0F;
  return states;
}

/// The drafts after some rows, wherever those lie.
std::vector<int32_t> draft(foretoken_device* device, const foretoken_rows& rows) {
  const std::string model = std::string(FORETOKEN_TEST_DATA) + "/tiny-dense";
  foretoken_drafter_source source{};
  source.struct_size = sizeof(source);
  source.model = model.c_str();
  foretoken_drafter_options options{};
  options.struct_size = sizeof(options);
  options.max_seq_len = 64;
  options.max_drafts = kDrafts;
  foretoken_drafter* drafter = nullptr;
  foretoken_sequence* sequence = nullptr;
  const std::array<int32_t, kRows> ids{5, 17, 300, 42, 9, 256};
  std::vector<int32_t> drafts(kDrafts);
  expect_ok(foretoken_drafter_load(device, &source, &options, &drafter));
  expect_ok(foretoken_sequence_create(drafter, 64, &sequence));
  expect_ok(foretoken_sequence_propose(sequence, ids.data(), &rows, kDrafts, drafts.data(), nullptr));
  expect_ok(foretoken_sequence_free(sequence));
  expect_ok(foretoken_drafter_free(drafter));
  return drafts;
}

TEST(AdoptedDeviceOfTheCApi, DraftsAsOneOfTheLibrarys) {
  setenv("FORETOKEN_BACKEND_PATH", FORETOKEN_TEST_MODULES, 1);
  Caller caller;
  if (!caller.absent().empty()) GTEST_SKIP() << caller.absent();
  const VulkanDevice native = caller.native();
  foretoken_vulkan_device vulkan{};
  vulkan.struct_size = sizeof(vulkan);
  vulkan.get_instance_proc_addr = native.get_instance_proc_addr;
  vulkan.instance = native.instance;
  vulkan.physical_device = native.physical_device;
  vulkan.device = native.device;
  vulkan.queue = native.queue;
  vulkan.queue_family_index = native.queue_family_index;
  vulkan.api_version = native.api_version;
  vulkan.device_create_info = native.device_create_info;
  foretoken_device_options options{};
  options.struct_size = sizeof(options);
  options.vulkan = &vulkan;
  foretoken_device* adopted = nullptr;
  expect_ok(foretoken_device_open("vulkan", &options, &adopted));

  const std::vector<float> states = hidden_states();
  const Caller::Memory memory = caller.allocate(states.size() * sizeof(float));
  std::ranges::copy(states, memory.data);
  foretoken_native_memory lent{};
  lent.struct_size = sizeof(lent);
  lent.handle = memory.native().handle;
  lent.bytes = memory.bytes;
  foretoken_buffer* buffer = nullptr;
  expect_ok(foretoken_buffer_adopt(adopted, &lent, &buffer));
  foretoken_rows rows{};
  rows.buffer = buffer;
  rows.num_rows = kRows;
  rows.dtype = FORETOKEN_F32;
  const std::vector<int32_t> got = draft(adopted, rows);

  foretoken_device* own = nullptr;
  expect_ok(foretoken_device_open("vulkan:0", nullptr, &own));
  rows.buffer = nullptr;
  rows.host = states.data();
  EXPECT_EQ(got, draft(own, rows));

  expect_ok(foretoken_buffer_free(buffer));
  expect_ok(foretoken_device_close(adopted));
  expect_ok(foretoken_device_close(own));
  caller.wait_idle();
  caller.free(memory);
  EXPECT_EQ(caller.complaints(), std::vector<std::string>());
}

}  // namespace
}  // namespace foretoken::vulkan::test
