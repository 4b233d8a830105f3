// Buffers and capabilities.
#include <cstring>

#include "backends/kernel.h"
#include "tests/conformance/interface/devices.h"

namespace foretoken::test {
namespace {

class Memory : public InterfaceTest {};

TEST_P(Memory, BuffersAreAlignedAndCounted) {
  const size_t before = backend_->allocated_bytes();
  {
    std::vector<Buffer> buffers;
    size_t total = 0;
    for (const size_t bytes : {size_t{1}, size_t{255}, size_t{4096}, size_t{100001}, size_t{3} << 20}) {
      buffers.push_back(backend_->allocate(bytes));
      total += bytes;
      EXPECT_EQ(buffers.back().bytes(), bytes);
      EXPECT_EQ(buffers.back().view().address() % 256, 0U);
      EXPECT_EQ(backend_->allocated_bytes(), before + total);
    }
  }
  EXPECT_EQ(backend_->allocated_bytes(), before);
}

TEST_P(Memory, DeviceMemoryIsHiddenAndHostVisibleMemoryIsNot) {
  const Buffer device = backend_->allocate(64, MemoryKind::kDevice);
  const Buffer visible = backend_->allocate(64, MemoryKind::kHostVisible);
  EXPECT_EQ(device.view().buffer->kind(), MemoryKind::kDevice);
  EXPECT_EQ(device.view().buffer->host_data(), nullptr);
  EXPECT_NE(device.view().address(), 0U);
  ASSERT_NE(visible.view().buffer->host_data(), nullptr);
  std::memset(visible.view().buffer->host_data(), 7, 64);
  EXPECT_EQ(download(visible.view()), std::vector<int32_t>(16, 0x07070707));
}

TEST_P(Memory, AnEmptyBufferIsABuffer) {
  const Buffer empty = backend_->allocate(0);
  EXPECT_TRUE(empty);
  EXPECT_EQ(empty.bytes(), 0U);
  stream_->upload({}, empty.view());
  EXPECT_TRUE(download(empty.view()).empty());
}

TEST_P(Memory, TooMuchIsAnErrorThatNamesBothSizes) {
  const size_t before = backend_->allocated_bytes();
  expect_error([&] { static_cast<void>(backend_->allocate(size_t{1} << 44)); }, ErrorCode::kOutOfMemory,
               {std::to_string(size_t{1} << 44), "free"});
  expect_error([&] { static_cast<void>(backend_->allocate(SIZE_MAX)); }, ErrorCode::kOutOfMemory);
  EXPECT_EQ(backend_->allocated_bytes(), before);
  EXPECT_TRUE(backend_->allocate(64));
}

TEST_P(Memory, ReturnedMemoryIsUsedAgain) {
  const size_t before = backend_->allocated_bytes();
  for (int round = 0; round < 20; ++round) {
    const Buffer a = backend_->allocate(size_t{8} << 20);
    const Buffer b = backend_->allocate(1000);
    ASSERT_TRUE(a && b);
  }
  EXPECT_EQ(backend_->allocated_bytes(), before);
}

TEST_P(Memory, CapabilitiesAreFilledIn) {
  const Capabilities& caps = backend_->capabilities();
  EXPECT_FALSE(caps.backend.empty());
  EXPECT_FALSE(caps.device_name.empty());
  EXPECT_FALSE(caps.instruction_set.empty());
  EXPECT_GT(caps.total_memory_bytes, 0U);
  EXPECT_GT(caps.num_compute_units, 0U);
  EXPECT_FALSE(caps.subgroup_sizes.empty());
  EXPECT_FALSE(caps.activation_dtypes.empty());
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) EXPECT_TRUE(caps.weight_format(format).storable);
}

TEST_P(Memory, HandlesThatAreAbsentSayWhyAndAreNotLaunched) {
  struct Params {
    uint64_t unused;
  };
  const auto kernel = Kernel<Params>::absent("no such unit");
  EXPECT_FALSE(kernel);
  EXPECT_EQ(kernel.absent_reason(), "no such unit");
  stream_->run(
      [&](CommandList& cmd) { expect_error([&] { kernel(cmd, Grid{}, {}, {}); }, ErrorCode::kInternalError, {"no such unit"}); });
  stream_->synchronize();
}

FORETOKEN_INTERFACE_SUITE(Memory);

}  // namespace
}  // namespace foretoken::test
