#include "cache/prefix_index.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "cache/block_table.h"
#include "core/error.h"

namespace foretoken {
namespace {

constexpr int32_t kBlock = 4;
constexpr int32_t kMaxBlocks = 64;

std::vector<int32_t> ids(int32_t first, int32_t count) {
  std::vector<int32_t> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

std::vector<int32_t> joined(std::vector<int32_t> head, const std::vector<int32_t>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

std::vector<int32_t> blocks_of(const std::vector<BlockReference>& references) {
  std::vector<int32_t> blocks;
  for (const BlockReference& reference : references) blocks.push_back(reference.block());
  return blocks;
}

/// Pools of 64 blocks and 4 snapshots, and tables of a sequence over them.
class Prefix : public ::testing::Test {
 protected:
  struct Rows {
    BlockTable target;
    BlockTable draft;
  };

  Rows rows(int64_t num_tokens) {
    Rows result{BlockTable(target_, kBlock, kMaxBlocks), BlockTable(draft_, kBlock, kMaxBlocks)};
    EXPECT_TRUE(result.target.reserve(num_tokens));
    EXPECT_TRUE(result.draft.reserve(num_tokens));
    return result;
  }
  static PrefixSource source(const std::vector<int32_t>& tokens, const Rows& rows, int64_t num_grid_tokens) {
    return {.token_ids = tokens,
            .target_blocks = rows.target.blocks(),
            .draft_blocks = rows.draft.blocks(),
            .num_grid_tokens = num_grid_tokens};
  }
  static PrefixSource source(const std::vector<int32_t>& tokens, const Rows& rows) {
    return source(tokens, rows, static_cast<int64_t>(tokens.size()));
  }
  /// With a snapshot; its number.
  int32_t insert(PrefixIndex& index, const PrefixSource& source) {
    std::optional<BlockReference> snapshot = index.allocate_snapshot();
    EXPECT_TRUE(snapshot.has_value());
    const int32_t block = snapshot->block();
    index.insert(source, std::move(*snapshot));
    return block;
  }

  BlockPool target_{kMaxBlocks};
  BlockPool draft_{kMaxBlocks};
  BlockPool snapshots_{4};
  PrefixPools recurrent_{.target = &target_, .draft = &draft_, .snapshots = &snapshots_};
  PrefixPools attention_{.target = &target_, .draft = &draft_, .snapshots = nullptr};
};

TEST_F(Prefix, ARepeatResumesAtTheLastSnapshotAndOnlyWithATokenLeftToCompute) {
  PrefixIndex index(recurrent_, {.block_size = kBlock, .grid = 8});
  const auto prompt = ids(0, 30);
  const Rows mine = rows(30);
  insert(index, source(std::vector(prompt.begin(), prompt.begin() + 8), mine));
  const int32_t second = insert(index, source(std::vector(prompt.begin(), prompt.begin() + 16), mine));

  const PrefixMatch match = index.lookup(prompt, true);
  EXPECT_EQ(match.num_tokens, 16);
  EXPECT_EQ(match.num_grid_tokens, 16);
  EXPECT_EQ(match.snapshot.block(), second);
  EXPECT_EQ(blocks_of(match.target_blocks), (std::vector(mine.target.blocks().begin(), mine.target.blocks().begin() + 4)));
  EXPECT_EQ(match.num_draft_rows, 15);
  EXPECT_TRUE(match.needs_boundary_row);
  EXPECT_EQ(blocks_of(match.draft_blocks), (std::vector(mine.draft.blocks().begin(), mine.draft.blocks().begin() + 4)));

  EXPECT_EQ(index.lookup(ids(0, 17), true).num_tokens, 16);
  EXPECT_EQ(index.lookup(ids(0, 16), true).num_tokens, 8) << "the row of the last token gives the first logits";
  EXPECT_EQ(index.lookup(ids(0, 8), true).num_tokens, 0);
  EXPECT_EQ(index.lookup(joined(ids(0, 15), {99, 100}), true).num_tokens, 8) << "another text from token 15 on";
}

TEST_F(Prefix, HitsAreAsLongWithADrafterAsWithout) {
  for (const PrefixPools& pools : {recurrent_, attention_}) {
    PrefixIndex index(pools, {.block_size = kBlock, .grid = 8});
    const auto prompt = ids(0, 50);
    const Rows mine = rows(50);
    for (int32_t end : {8, 16, 24, 32, 40, 48}) {
      const auto part = ids(0, end);
      if (pools.snapshots != nullptr && end % 16 == 0) insert(index, source(part, mine));
      if (pools.snapshots == nullptr) index.insert(source(part, mine));
    }
    for (int32_t length : {16, 17, 40, 41, 49, 50}) {
      EXPECT_EQ(index.lookup(ids(0, length), true).num_tokens, index.lookup(ids(0, length), false).num_tokens) << length;
    }
    EXPECT_GE(index.lookup(prompt, true).num_tokens, 40);
  }
}

TEST_F(Prefix, EveryRepeatOfALongPromptHits) {
  PrefixIndex index(recurrent_, {.block_size = kBlock, .grid = 8});
  const auto prompt = ids(7, 100);
  const Rows first = rows(100);
  insert(index, source(std::vector(prompt.begin(), prompt.begin() + 96), first));
  for (int repeat = 0; repeat < 3; ++repeat) {
    PrefixMatch match = index.lookup(prompt, true);
    EXPECT_EQ(match.num_tokens, 96);
    EXPECT_TRUE(index.contains(source(std::vector(prompt.begin(), prompt.begin() + 96), first)));
  }
}

TEST_F(Prefix, WithoutRecurrentStateASequenceResumesInFrontOfTheLastTokenThatMatches) {
  PrefixIndex index(attention_, {.block_size = kBlock});
  const Rows mine = rows(20);
  index.insert(source(ids(0, 18), mine));
  const PrefixMatch whole = index.lookup(ids(0, 18), true);
  EXPECT_EQ(whole.num_tokens, 17);
  EXPECT_EQ(whole.num_draft_rows, 17);
  EXPECT_FALSE(whole.needs_boundary_row);
  EXPECT_EQ(whole.target_blocks.size(), 5U);
  EXPECT_EQ(whole.draft_blocks.size(), 5U);
  const PrefixMatch part = index.lookup(joined(ids(0, 10), {50, 51, 52}), true);
  EXPECT_EQ(part.num_tokens, 7) << "two whole blocks match";
  EXPECT_FALSE(part.snapshot);

  PrefixIndex on_grid(attention_, {.block_size = kBlock, .grid = 8});
  on_grid.insert(source(ids(0, 18), mine, 16));
  EXPECT_EQ(on_grid.lookup(joined(ids(0, 17), {99}), true).num_tokens, 8);
  EXPECT_EQ(on_grid.lookup(ids(0, 18), true).num_tokens, 17) << "what is off the grid anyway resumes anywhere";
}

TEST_F(Prefix, TheLastDrafterRowOfABlockIsThatOfThePathTaken) {
  PrefixIndex index(attention_, {.block_size = kBlock});
  const Rows a = rows(12);
  const Rows b = rows(12);
  const auto text_a = joined(ids(0, 4), ids(100, 8));
  const auto text_b = joined(ids(0, 4), ids(200, 8));
  index.insert(source(text_a, a));
  index.insert(source(text_b, b));
  // Both share tokens 0 .. 3, but the row with pair key 3 was built with token 100 in one and 200 in the other.
  const PrefixMatch match_a = index.lookup(text_a, true);
  const PrefixMatch match_b = index.lookup(text_b, true);
  EXPECT_EQ(match_a.target_blocks[0].block(), match_b.target_blocks[0].block());
  EXPECT_EQ(match_a.draft_blocks[0].block(), a.draft.blocks()[0]);
  EXPECT_EQ(match_b.draft_blocks[0].block(), b.draft.blocks()[0]);
}

TEST_F(Prefix, ATurnThatEndedInTheMiddleOfABlockIsContinued) {
  PrefixIndex index(recurrent_, {.block_size = kBlock, .grid = 8});
  const Rows mine = rows(16);
  const auto turn = ids(0, 13);
  insert(index, source(ids(0, 8), mine));
  insert(index, source(turn, mine, 8));
  const PrefixMatch match = index.lookup(joined(turn, ids(70, 9)), true);
  EXPECT_EQ(match.num_tokens, 13);
  EXPECT_EQ(match.num_grid_tokens, 8);
  EXPECT_EQ(match.target_blocks.size(), 4U);
  EXPECT_EQ(match.num_draft_rows, 12);
  EXPECT_EQ(match.draft_blocks.size(), 3U);
  EXPECT_EQ(index.lookup(joined(ids(0, 12), {70, 71}), true).num_tokens, 8) << "token 12 differs";
}

TEST_F(Prefix, GeneratedRowsNeverStandInForThoseOfTheGrid) {
  PrefixIndex index(recurrent_, {.block_size = kBlock, .grid = 8});
  const Rows generated = rows(16);
  insert(index, source(ids(0, 16), generated, 8));
  EXPECT_EQ(index.lookup(ids(0, 20), true).num_grid_tokens, 8);
  const Rows cold = rows(16);
  insert(index, source(ids(0, 16), cold));
  const PrefixMatch match = index.lookup(ids(0, 20), true);
  EXPECT_EQ(match.num_tokens, 16);
  EXPECT_EQ(match.num_grid_tokens, 16) << "of two that are as long, the one of the grid";
  EXPECT_EQ(match.target_blocks[3].block(), cold.target.blocks()[3]);

  PrefixIndex strict(recurrent_, {.block_size = kBlock, .grid = 8, .reuse_generated = false});
  insert(strict, source(ids(0, 16), generated, 8));
  EXPECT_EQ(strict.lookup(ids(0, 20), true).num_tokens, 0);
}

TEST_F(Prefix, RowsWithoutADrafterServeOnlyThoseWhoNeedNone) {
  PrefixIndex index(recurrent_, {.block_size = kBlock, .grid = 8});
  const Rows plain = rows(16);
  const auto tokens = ids(0, 16);
  const auto other = ids(40, 16);
  PrefixSource no_draft = source(tokens, plain);
  no_draft.draft_blocks = {};
  insert(index, no_draft);
  EXPECT_EQ(index.lookup(ids(0, 20), false).num_tokens, 16);
  EXPECT_EQ(index.lookup(ids(0, 20), true).num_tokens, 0);
  const Rows speculating = rows(16);
  EXPECT_FALSE(index.contains(source(ids(0, 16), speculating)));
  insert(index, source(ids(0, 16), speculating));
  const PrefixMatch match = index.lookup(ids(0, 20), true);
  EXPECT_EQ(match.num_tokens, 16);
  EXPECT_EQ(match.target_blocks[0].block(), plain.target.blocks()[0]);
  EXPECT_EQ(match.draft_blocks[0].block(), speculating.draft.blocks()[0]);
  EXPECT_EQ(snapshots_.num_free(), 3) << "the first snapshot of the same prefix, without hidden state, was given back";

  // Rows that come later do not give a hidden state to a snapshot that was taken without.
  const Rows longer = rows(24);
  no_draft.token_ids = other;
  no_draft.target_blocks = longer.target.blocks();
  no_draft.num_grid_tokens = 16;
  insert(index, no_draft);
  insert(index, source(ids(40, 24), longer));
  EXPECT_EQ(index.lookup(joined(other, {1, 2}), false).num_tokens, 16);
  EXPECT_EQ(index.lookup(joined(other, {1, 2}), true).num_tokens, 0);
}

TEST_F(Prefix, EvictsTheLeastRecentlyUsedUntilARequestFits) {
  PrefixIndex index(attention_, {.block_size = kBlock});
  for (int32_t text = 0; text < 3; ++text) {
    const Rows mine = rows(16);
    index.insert(source(ids(100 * text, 16), mine));
  }
  EXPECT_EQ(target_.num_free(), 52);
  EXPECT_EQ(index.num_available_target_blocks(), 64);
  EXPECT_EQ(index.lookup(ids(0, 17), true).num_tokens, 15) << "the oldest is used again";
  EXPECT_TRUE(index.make_room(54, 0));
  EXPECT_EQ(target_.num_free(), 54);
  EXPECT_EQ(index.lookup(ids(100, 17), true).num_tokens, 7) << "the end of the text goes first";
  EXPECT_TRUE(index.make_room(62, 0));
  EXPECT_EQ(index.lookup(ids(0, 17), true).num_tokens, 0);
  EXPECT_EQ(index.lookup(ids(200, 17), true).num_tokens, 0);
  EXPECT_EQ(index.lookup(ids(100, 17), true).num_tokens, 7);
}

TEST_F(Prefix, WhatSomebodyUsesIsNotEvictedAndNotCountedOn) {
  PrefixIndex index(attention_, {.block_size = kBlock});
  {
    const Rows mine = rows(32);
    index.insert(source(ids(0, 32), mine));
  }
  PrefixMatch match = index.lookup(ids(0, 18), true);  // holds four blocks of eight
  EXPECT_EQ(match.num_tokens, 15);
  EXPECT_EQ(index.num_available_target_blocks(), 60);
  EXPECT_FALSE(index.make_room(61, 0));
  EXPECT_EQ(index.num_nodes(), 8) << "a request that cannot fit evicts nothing";
  EXPECT_TRUE(index.make_room(60, 60));
  EXPECT_EQ(target_.num_free(), 60);
  match = PrefixMatch();
  index.clear();
  EXPECT_EQ(target_.num_free(), 64);
  EXPECT_EQ(draft_.num_free(), 64);
}

TEST_F(Prefix, ADrafterThatIsShortOfBlocksEvictsToo) {
  BlockPool small(8);
  PrefixIndex index({.target = &target_, .draft = &small, .snapshots = nullptr}, {.block_size = kBlock});
  {
    Rows mine{BlockTable(target_, kBlock, kMaxBlocks), BlockTable(small, kBlock, kMaxBlocks)};
    ASSERT_TRUE(mine.target.reserve(32) && mine.draft.reserve(32));
    index.insert(source(ids(0, 32), mine));
  }
  EXPECT_EQ(small.num_free(), 0);
  EXPECT_TRUE(index.make_room(1, 3));
  EXPECT_EQ(small.num_free(), 3);
  EXPECT_FALSE(index.make_room(1, 9));
}

TEST_F(Prefix, SnapshotsGiveWayToNewerOnesAndTakeTheirRowsAlong) {
  PrefixIndex index(recurrent_, {.block_size = kBlock, .grid = 8});
  for (int32_t text = 0; text < 4; ++text) {
    const Rows mine = rows(8);
    insert(index, source(ids(100 * text, 8), mine));
  }
  PrefixMatch held = index.lookup(ids(0, 9), true);
  EXPECT_EQ(index.lookup(ids(100, 9), true).num_tokens, 8);
  {
    const Rows mine = rows(8);
    insert(index, source(ids(900, 8), mine));
  }
  EXPECT_EQ(index.lookup(ids(200, 9), true).num_tokens, 0);
  EXPECT_EQ(index.num_snapshots(), 4);
  EXPECT_EQ(index.num_nodes(), 8) << "rows that no snapshot leads to are of no use";
  const PrefixMatch second = index.lookup(ids(100, 9), true);
  const PrefixMatch third = index.lookup(ids(300, 9), true);
  const PrefixMatch fourth = index.lookup(ids(900, 9), true);
  EXPECT_FALSE(index.allocate_snapshot().has_value()) << "all are held by matches";
  EXPECT_EQ(index.num_snapshots(), 4);
  held = PrefixMatch();
  EXPECT_TRUE(index.allocate_snapshot().has_value());
  EXPECT_EQ(index.lookup(ids(0, 9), true).num_tokens, 0);
}

TEST_F(Prefix, ACollisionOfHashesChangesNoMatch) {
  PrefixIndex index(attention_, {.block_size = kBlock, .hash = [](uint64_t, std::span<const int32_t>) { return uint64_t{1}; }});
  const Rows a = rows(16);
  const Rows b = rows(16);
  index.insert(source(ids(0, 16), a));
  index.insert(source(joined(ids(40, 4), ids(4, 12)), b));  // blocks 1 to 3 have the same tokens behind another first block
  EXPECT_EQ(blocks_of(index.lookup(ids(0, 16), true).target_blocks),
            std::vector(a.target.blocks().begin(), a.target.blocks().end()));
  EXPECT_EQ(blocks_of(index.lookup(joined(ids(40, 4), ids(4, 12)), true).target_blocks),
            std::vector(b.target.blocks().begin(), b.target.blocks().end()));
  EXPECT_EQ(index.lookup(ids(4, 12), true).num_tokens, 0);
}

TEST_F(Prefix, RefusesWhatCannotBeWithoutChangingAnything) {
  PrefixIndex index(recurrent_, {.block_size = kBlock, .grid = 8});
  const Rows mine = rows(8);
  const auto tokens = ids(0, 9);
  const auto snapshot = [&] { return std::move(*index.allocate_snapshot()); };
  EXPECT_THROW(index.insert(source(tokens, mine), snapshot()), Error) << "nine tokens in two blocks";
  EXPECT_THROW(index.insert(source({}, mine), snapshot()), Error);
  EXPECT_THROW(index.insert(source(ids(0, 8), mine, 9), snapshot()), Error);
  EXPECT_THROW(index.insert(source(ids(0, 8), mine)), Error) << "no snapshot";
  const auto eight = ids(0, 8);
  PrefixSource wild = source(eight, mine);
  const std::vector<int32_t> free_blocks{60, 61};
  wild.target_blocks = free_blocks;
  EXPECT_THROW(index.insert(wild, snapshot()), Error);
  EXPECT_THROW(static_cast<void>(index.contains(wild)), Error);
  EXPECT_EQ(index.num_nodes(), 0);
  EXPECT_EQ(snapshots_.num_free(), 4);

  PrefixIndex plain({.target = &target_}, {.block_size = kBlock});
  EXPECT_THROW(plain.insert(source(ids(0, 8), mine)), Error) << "drafter rows without a drafter";
  EXPECT_THROW(PrefixIndex({}, {}), Error);
  EXPECT_THROW(PrefixIndex({.target = &target_}, {.block_size = 0}), Error);
  EXPECT_THROW(PrefixIndex({.target = &target_}, {.block_size = 4, .grid = 0}), Error);
}

}  // namespace
}  // namespace foretoken
