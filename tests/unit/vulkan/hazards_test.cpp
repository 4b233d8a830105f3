// Where a barrier stands between two launches, and where none does.
#include "backends/vulkan/hazards.h"

#include <gtest/gtest.h>

namespace foretoken::vulkan {
namespace {

/// 1000 bytes at address 4096.
class FixedBuffer final : public BufferHandle {
 public:
  [[nodiscard]] size_t bytes() const override { return 1000; }
  [[nodiscard]] DeviceAddress address() const override { return 4096; }
  [[nodiscard]] MemoryKind kind() const override { return MemoryKind::kDevice; }
  [[nodiscard]] std::byte* host_data() const override { return nullptr; }
};

class HazardsTest : public testing::Test {
 protected:
  bool launch(std::vector<Access> accesses) { return hazards_.add(accesses); }
  Access reads(size_t offset, size_t bytes) { return {.view = part(offset, bytes), .mode = AccessMode::kRead}; }
  Access writes(size_t offset, size_t bytes) { return {.view = part(offset, bytes), .mode = AccessMode::kWrite}; }
  Access updates(size_t offset, size_t bytes) { return {.view = part(offset, bytes), .mode = AccessMode::kReadWrite}; }

  Hazards hazards_;

 private:
  BufferView part(size_t offset, size_t bytes) { return {.buffer = &buffer_, .offset = offset, .bytes = bytes}; }

  FixedBuffer buffer_;
};

TEST_F(HazardsTest, ReadersDoNotWaitForReaders) {
  EXPECT_FALSE(launch({reads(0, 100), writes(200, 50)}));
  EXPECT_FALSE(launch({reads(0, 100), writes(250, 50)}));
}

TEST_F(HazardsTest, AReaderWaitsForTheWriter) {
  EXPECT_FALSE(launch({writes(0, 100)}));
  EXPECT_FALSE(launch({reads(100, 4)})) << "neighbours share no byte";
  EXPECT_TRUE(launch({reads(99, 4)}));
}

TEST_F(HazardsTest, AWriterWaitsForReadersAndWriters) {
  EXPECT_FALSE(launch({reads(0, 100)}));
  EXPECT_TRUE(launch({writes(50, 1)}));
  EXPECT_TRUE(launch({writes(50, 1)}));
  EXPECT_TRUE(launch({updates(40, 20)}));
}

TEST_F(HazardsTest, ABarrierIsForAllThatCameBefore) {
  EXPECT_FALSE(launch({writes(0, 10)}));
  EXPECT_FALSE(launch({writes(10, 10)}));
  EXPECT_TRUE(launch({reads(0, 10), writes(20, 10)}));
  EXPECT_FALSE(launch({reads(10, 10)})) << "its writer came before the barrier";
  EXPECT_TRUE(launch({reads(20, 10)}));
}

TEST_F(HazardsTest, AnEmptyRangeMeetsNothing) {
  EXPECT_FALSE(launch({writes(0, 100)}));
  EXPECT_FALSE(launch({reads(50, 0)}));
  EXPECT_FALSE(launch({Access{}}));
}

TEST_F(HazardsTest, ClearForgets) {
  EXPECT_FALSE(launch({writes(0, 100)}));
  hazards_.clear();
  EXPECT_FALSE(launch({reads(0, 100)}));
}

}  // namespace
}  // namespace foretoken::vulkan
