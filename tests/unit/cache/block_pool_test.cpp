#include "cache/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cache/block_table.h"
#include "core/error.h"

namespace foretoken {
namespace {

TEST(BlockPool, HandsOutBlockZeroFirstAndTheLastFreedNext) {
  BlockPool pool(3);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 1);
  pool.release(0);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 2);
  EXPECT_EQ(pool.allocate(), std::nullopt);
}

TEST(BlockPool, ReturnsABlockWithItsLastReference) {
  BlockPool pool(1);
  const int32_t block = *pool.allocate();
  pool.add_reference(block);
  pool.release(block);
  EXPECT_EQ(pool.num_free(), 0);
  pool.release(block);
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(BlockPool, RefusesBlocksThatAreNotInUse) {
  BlockPool pool(2);
  EXPECT_THROW(pool.release(0), Error);
  EXPECT_THROW(pool.release(-1), Error);
  EXPECT_THROW(pool.add_reference(7), Error);
  EXPECT_THROW(BlockPool(0), Error);
}

/// Random operations against a map from block to count.
TEST(BlockPool, AgreesWithAModelUnderRandomOperations) {
  std::mt19937 random(7);
  BlockPool pool(17);
  std::map<int32_t, int32_t> model;
  for (int step = 0; step < 20000; ++step) {
    const auto action = random() % 3;
    if (action == 0) {
      const auto block = pool.allocate();
      ASSERT_EQ(block.has_value(), model.size() < 17);
      if (block) {
        ASSERT_EQ(model.count(*block), 0U);
        model[*block] = 1;
      }
    } else if (!model.empty()) {
      auto entry = std::next(model.begin(), static_cast<int64_t>(random() % model.size()));
      if (action == 1) {
        pool.add_reference(entry->first);
        ++entry->second;
      } else {
        pool.release(entry->first);
        if (--entry->second == 0) model.erase(entry);
      }
    }
    ASSERT_EQ(pool.num_free(), 17 - static_cast<int32_t>(model.size()));
    for (const auto& [block, count] : model) ASSERT_EQ(pool.num_references(block), count);
  }
}

TEST(BlockTable, MapsPositionsToSlots) {
  BlockPool pool(4);
  static_cast<void>(pool.allocate());  // block 0 belongs to somebody else
  BlockTable table(pool, 16, 3);
  ASSERT_TRUE(table.reserve(17));
  EXPECT_EQ(table.slot(0), 16);
  EXPECT_EQ(table.slot(15), 31);
  EXPECT_EQ(table.slot(16), 32);
  EXPECT_THROW(static_cast<void>(table.slot(32)), Error);
  EXPECT_THROW(static_cast<void>(table.slot(-1)), Error);
}

TEST(BlockTable, ReservationThatFailsChangesNothing) {
  BlockPool pool(2);
  BlockTable table(pool, 16, 8);
  ASSERT_TRUE(table.reserve(10));
  EXPECT_FALSE(table.reserve(50));
  EXPECT_EQ(table.blocks().size(), 1U);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_THROW(static_cast<void>(table.reserve(16 * 8 + 1)), Error);
}

TEST(BlockTable, GivesItsBlocksBack) {
  BlockPool pool(8);
  {
    BlockTable table(pool, 16, 8);
    ASSERT_TRUE(table.reserve(100));
    table.truncate(33);
    EXPECT_EQ(table.blocks().size(), 3U);
    BlockTable moved = std::move(table);
    EXPECT_EQ(moved.capacity(), 48);
    BlockTable other(pool, 16, 8);
    ASSERT_TRUE(other.reserve(16));
    other = std::move(moved);
    EXPECT_EQ(pool.num_free(), 5);
  }
  EXPECT_EQ(pool.num_free(), 8);
}

}  // namespace
}  // namespace foretoken
