// Devices and buffers of the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "api_session.h"

namespace foretoken::test {
namespace {

TEST(DeviceApi, ListsTheCpu) {
  const auto found = devices();
  ASSERT_FALSE(found.empty());
  const auto cpu = std::ranges::find_if(found, [](const auto& info) { return std::string_view(info.selector) == "cpu"; });
  ASSERT_NE(cpu, found.end());
  EXPECT_STREQ(cpu->unavailable, "");
  EXPECT_EQ(cpu->kind, FORETOKEN_DEVICE_CPU);
  for (const auto& info : found) {
    EXPECT_NE(info.name[0] == '\0', info.unavailable[0] == '\0') << info.selector << " has a name or a reason";
  }
}

TEST(DeviceApi, TheCpuHasNoStreamsOfACaller) {
  auto options = defaults<foretoken_device_options>();
  options.adopt_stream = 1;
  foretoken_device* device = nullptr;
  EXPECT_EQ(foretoken_device_open("cpu", &options, &device), FORETOKEN_UNSUPPORTED);
  EXPECT_EQ(device, nullptr);
}

TEST(BufferApi, BytesComeBack) {
  const Device device = open_test_device();
  const Buffer buffer(device, 4096);
  std::array<uint32_t, 64> written{};
  std::iota(written.begin(), written.end(), 7U);
  std::array<uint32_t, 64> read{};
  buffer.upload(std::span<const uint32_t>(written), 1024);
  buffer.download(std::span<uint32_t>(read), 1024);
  EXPECT_EQ(read, written);
  EXPECT_EQ(buffer.bytes(), 4096U);
  EXPECT_NE(buffer.address(), 0U);
}

TEST(BufferApi, MemoryOfTheCallerIsUsedWhereItIs) {
  const Device device("cpu");
  alignas(64) std::array<float, 32> memory{};
  auto native = defaults<foretoken_native_memory>();
  native.handle = reinterpret_cast<uint64_t>(memory.data());
  native.bytes = sizeof(memory);
  const uint64_t before = device.allocated_bytes();
  const Buffer buffer = Buffer::adopt(device, native);
  EXPECT_EQ(device.allocated_bytes(), before);
  const std::array<float, 2> values{1.5F, -2.0F};
  buffer.upload(std::span<const float>(values), 16);
  EXPECT_EQ(memory[4], 1.5F);
  EXPECT_EQ(memory[5], -2.0F);
  EXPECT_EQ(detail::filled<foretoken_native_memory>([&](auto* known) {
              return foretoken_buffer_get_native(buffer.get(), known);
            }).handle,
            native.handle);
  native.handle += 4;
  EXPECT_THROW(static_cast<void>(Buffer::adopt(device, native)), Error) << "misaligned";
}

TEST(BufferApi, BuffersOfAnotherDeviceAreRefused) {
  const Device device = open_test_device();
  const Device other("cpu");
  const Buffer foreign(other, 1 << 20);
  const Drafter drafter(device, bundled("tiny-dense"));
  const Sequence sequence = drafter.sequence(64);
  const std::array<int32_t, 1> ids{1};
  EXPECT_THROW(sequence.prefill(ids, device_rows(foreign, 0, 1, FORETOKEN_F32)), Error);
  EXPECT_THAT(foretoken_last_error(), testing::HasSubstr("same foretoken_device"));
}

}  // namespace
}  // namespace foretoken::test
