#include "backends/cpu/cpu_buffer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/cpu_info_limits.h"
#include "core/error.h"

namespace foretoken::cpu {
namespace {

TEST(CpuBuffer, AlignsSmallAndBigMemory) {
  std::atomic<size_t> allocated{0};
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, (size_t{2} << 20) - 1}) {
    const CpuBuffer buffer(bytes, MemoryKind::kDevice, allocated);
    EXPECT_EQ(buffer.address() % 256, 0U) << bytes;
    EXPECT_EQ(buffer.bytes(), bytes);
  }
  for (const size_t bytes : {size_t{2} << 20, (size_t{5} << 20) + 3}) {
    const CpuBuffer buffer(bytes, MemoryKind::kDevice, allocated);
    EXPECT_EQ(buffer.address() % (size_t{2} << 20), 0U) << bytes;
    std::memset(reinterpret_cast<void*>(buffer.address()), 1, bytes);
  }
  EXPECT_EQ(allocated, 0U);
}

TEST(CpuBuffer, ShowsTheHostOnlyWhatIsHostVisible) {
  std::atomic<size_t> allocated{0};
  const CpuBuffer device(64, MemoryKind::kDevice, allocated);
  const CpuBuffer visible(64, MemoryKind::kHostVisible, allocated);
  EXPECT_EQ(device.host_data(), nullptr);
  EXPECT_NE(device.address(), 0U);
  EXPECT_EQ(reinterpret_cast<DeviceAddress>(visible.host_data()), visible.address());
  EXPECT_EQ(allocated, 128U);
}

TEST(CpuBuffer, RefusesMoreThanThereIs) {
  std::atomic<size_t> allocated{0};
  try {
    const CpuBuffer buffer(size_t{1} << 40, MemoryKind::kDevice, allocated);
    FAIL() << "a terabyte was there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("1099511627776 bytes"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("free"), std::string::npos) << error.what();
  }
  EXPECT_EQ(allocated, 0U);
}

TEST(CpuLimits, AreThere) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_GT(available_memory_bytes(), 0U);
  EXPECT_LE(available_memory_bytes(), total_memory_bytes());
  EXPECT_LT(total_memory_bytes(), uint64_t{1} << 50);
}

}  // namespace
}  // namespace foretoken::cpu
