#include "cache/prefix_cache.h"

#include <algorithm>
#include <numeric>

#include "cache/host_copy.h"
#include "core/error.h"
#include "tests/unit/cache/cache_device.h"

namespace foretoken {
namespace {

constexpr int32_t kBlock = 4;
constexpr size_t kHiddenBytes = 32;

std::vector<int32_t> ids(int32_t first, int32_t count) {
  std::vector<int32_t> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

PagedKvCacheConfig kv_config(int64_t num_layers, DType dtype = DType::kBF16) {
  return {.num_layers = num_layers,
          .num_key_value_heads = 1,
          .head_dim = 8,
          .dtype = dtype,
          .block_size = kBlock,
          .num_blocks = 16,
          .max_blocks_per_seq = 12};
}

RecurrentStateConfig state_config(int64_t num_layers) {
  return {.num_layers = num_layers,
          .num_slots = 3,
          .max_record_rows = 2,
          .conv_channels = 48,
          .num_value_heads = 2,
          .key_head_dim = 8,
          .value_head_dim = 8};
}

class PrefixCacheTest : public CacheDevice {
 protected:
  struct Sequence {
    BlockTable target;
    BlockTable draft;
    int32_t slot;
  };

  explicit PrefixCacheTest(int64_t num_state_layers = 2) : states_(*backend_, state_config(num_state_layers)) {}

  Sequence empty_sequence() { return {target_.create_table(), draft_.create_table(), *states_.allocate(*stream_)}; }
  /// With random rows and states.
  Sequence random_sequence(int64_t num_tokens) {
    Sequence sequence = empty_sequence();
    EXPECT_TRUE(sequence.target.reserve(num_tokens) && sequence.draft.reserve(num_tokens));
    scramble(target_pieces(sequence));
    scramble(draft_pieces(sequence));
    scramble(state_pieces(sequence.slot));
    scramble(std::array{hidden_.view()});
    return sequence;
  }
  void release(Sequence& sequence) {
    sequence.target.truncate(0);
    sequence.draft.truncate(0);
    states_.release(sequence.slot);
  }

  std::vector<BufferView> target_pieces(const Sequence& sequence) { return pieces(target_, sequence.target.blocks()); }
  std::vector<BufferView> draft_pieces(const Sequence& sequence) { return pieces(draft_, sequence.draft.blocks()); }
  static std::vector<BufferView> pieces(const PagedKvCache& cache, std::span<const int32_t> blocks) {
    std::vector<BufferView> result;
    cache.append_views(blocks, result);
    return result;
  }
  std::vector<BufferView> state_pieces(int32_t slot) {
    std::vector<BufferView> result;
    states_.append_views(slot, result);
    return result;
  }

  PrefixMemory memory() { return {.target = &target_, .states = &states_, .draft = &draft_, .hidden_row_bytes = kHiddenBytes}; }
  PrefixCacheOptions options(int32_t num_snapshots) {
    return {
        .snapshot_bytes = static_cast<size_t>(num_snapshots) * StateSnapshots::bytes_per_snapshot(states_.config(), kHiddenBytes),
        .prefill_chunk = 8,
        .snapshot_spacing = 16};
  }
  static PrefixSource source(std::span<const int32_t> tokens, const Sequence& sequence, int64_t num_grid_tokens) {
    return {.token_ids = tokens,
            .target_blocks = sequence.target.blocks(),
            .draft_blocks = sequence.draft.blocks(),
            .num_grid_tokens = num_grid_tokens};
  }

  PagedKvCache target_{*backend_, kv_config(2)};
  PagedKvCache draft_{*backend_, kv_config(1)};
  RecurrentStateStore states_;
  Buffer hidden_memory_ = backend_->allocate(2 * kHiddenBytes);
  Tensor hidden_ = hidden_memory_.tensor(DType::kF32, {1, 8});
  Tensor resumed_hidden_ = hidden_memory_.tensor(DType::kF32, {1, 8}, kHiddenBytes);
};

TEST_F(PrefixCacheTest, ASequenceResumesWithTheBitsOfTheOneBefore) {
  PrefixCache cache(*backend_, memory(), options(2));
  const auto turn = ids(0, 14);
  Sequence first = random_sequence(14);
  const auto target_rows = read(target_pieces(first));
  const auto draft_rows = read(draft_pieces(first));
  const auto state = read(state_pieces(first.slot));
  const auto hidden = read(hidden_.view());
  ASSERT_TRUE(cache.insert(*stream_, source(turn, first, 8), first.slot, hidden_));
  const std::vector<int32_t> first_blocks(first.target.blocks().begin(), first.target.blocks().end());
  release(first);
  scramble(std::array{hidden_.view()});

  const PrefixMatch match = cache.lookup(ids(0, 20), true);
  ASSERT_EQ(match.num_tokens, 14);
  EXPECT_EQ(match.num_grid_tokens, 8);
  EXPECT_EQ(cache.num_shared_target_blocks(match), 3);
  EXPECT_EQ(cache.num_shared_draft_blocks(match), 3);
  Sequence second = empty_sequence();
  scramble(state_pieces(second.slot));
  cache.resume(*stream_, match,
               {.target = &second.target, .state_slot = second.slot, .draft = &second.draft, .hidden_row = resumed_hidden_});
  EXPECT_TRUE(std::equal(first_blocks.begin(), first_blocks.begin() + 3, second.target.blocks().begin()));
  EXPECT_NE(second.target.blocks()[3], first_blocks[3]) << "a block that is not whole has one writer";
  EXPECT_EQ(read(target_pieces(second)), target_rows);
  EXPECT_EQ(read(draft_pieces(second)), draft_rows);
  EXPECT_EQ(read(state_pieces(second.slot)), state);
  EXPECT_TRUE(match.needs_boundary_row);
  EXPECT_EQ(read(resumed_hidden_.view()), hidden);

  // What the second writes behind the prefix does not reach the third.
  scramble(pieces(target_, second.target.blocks().last(1)));
  scramble(pieces(draft_, second.draft.blocks().last(1)));
  scramble(state_pieces(second.slot));
  release(second);
  Sequence third = empty_sequence();
  cache.resume(*stream_, match,
               {.target = &third.target, .state_slot = third.slot, .draft = &third.draft, .hidden_row = hidden_});
  EXPECT_EQ(read(target_pieces(third)), target_rows);
  EXPECT_EQ(read(draft_pieces(third)), draft_rows);
  EXPECT_EQ(read(state_pieces(third.slot)), state);
  release(third);
}

TEST_F(PrefixCacheTest, MemoryReturnsToItsStart) {
  const size_t before = backend_->allocated_bytes();
  {
    PrefixCache cache(*backend_, memory(), options(3));
    EXPECT_EQ(backend_->allocated_bytes(), before + cache.bytes());
    Sequence sequence = random_sequence(16);
    const auto tokens = ids(0, 16);
    ASSERT_TRUE(cache.insert(*stream_, source(tokens, sequence, 16), sequence.slot, hidden_));
    release(sequence);
    EXPECT_EQ(target_.pool().num_free(), 12);
    EXPECT_EQ(cache.index().num_available_target_blocks(), 16);
    EXPECT_TRUE(cache.make_room(16, 16));
    EXPECT_EQ(target_.pool().num_free(), 16);
    EXPECT_EQ(cache.index().num_snapshots(), 0) << "a snapshot goes with its rows";
    sequence = random_sequence(16);
    ASSERT_TRUE(cache.insert(*stream_, source(tokens, sequence, 16), sequence.slot, hidden_));
    release(sequence);
  }
  EXPECT_EQ(target_.pool().num_free(), 16);
  EXPECT_EQ(draft_.pool().num_free(), 16);
  EXPECT_EQ(states_.num_free(), 3);
  EXPECT_EQ(backend_->allocated_bytes(), before);
}

TEST_F(PrefixCacheTest, AResumeThatFailsLeavesTheTablesAsTheyWere) {
  PrefixCache cache(*backend_, memory(), options(2));
  Sequence first = random_sequence(14);
  const auto turn = ids(0, 14);
  ASSERT_TRUE(cache.insert(*stream_, source(turn, first, 8), first.slot, hidden_));
  const PrefixMatch match = cache.lookup(ids(0, 20), true);
  Sequence second = empty_sequence();
  BlockTable hog = draft_.create_table();
  ASSERT_TRUE(hog.reserve(12 * kBlock));
  const ResumedSequence into{
      .target = &second.target, .state_slot = second.slot, .draft = &second.draft, .hidden_row = resumed_hidden_};
  try {
    cache.resume(*stream_, match, into);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  }
  EXPECT_TRUE(second.target.blocks().empty() && second.draft.blocks().empty());
  EXPECT_EQ(target_.pool().num_free(), 12);
  hog.truncate(0);
  ASSERT_TRUE(second.draft.reserve(1));
  EXPECT_THROW(cache.resume(*stream_, match, into), Error) << "a table that is not empty";
  second.draft.truncate(0);
  EXPECT_THROW(cache.resume(*stream_, cache.lookup(ids(0, 20), false), into), Error) << "drafter rows were not looked up";
  EXPECT_TRUE(second.target.blocks().empty() && second.draft.blocks().empty());
  cache.resume(*stream_, match, into);
  EXPECT_EQ(second.target.blocks().size(), 4U);
  release(first);
  release(second);
}

TEST_F(PrefixCacheTest, SnapshotsLieOnTheGridWithTheirSpacing) {
  PrefixCache cache(*backend_, memory(), options(1));
  std::vector<int64_t> due;
  for (int64_t position = 0; position <= 45; ++position) {
    if (cache.wants_insert(position, 45)) due.push_back(position);
  }
  EXPECT_EQ(due, (std::vector<int64_t>{16, 32, 40})) << "and at the last border that a repeat can use";
  EXPECT_FALSE(cache.wants_insert(40, 40)) << "a repeat has to compute its last token";
  EXPECT_TRUE(cache.wants_insert(32, 40));
  EXPECT_TRUE(cache.wants_insert(48, 48)) << "a longer prompt can use it";

  EXPECT_EQ(cache.advance_grid(0, 0, 8), 8);
  EXPECT_EQ(cache.advance_grid(8, 8, 5), 8) << "the last part of a prompt";
  EXPECT_EQ(cache.advance_grid(8, 16, 8), 8) << "behind rows that are off the grid";
  EXPECT_EQ(cache.advance_grid(14, 14, 8), 14);
  PrefixCacheOptions exact = options(1);
  exact.row_invariant_prefill = true;
  const PrefixCache invariant(*backend_, memory(), exact);
  EXPECT_EQ(invariant.advance_grid(13, 13, 1), 14) << "decode kernels give the bits of prefill";
}

TEST_F(PrefixCacheTest, TurnedOffItFindsNothing) {
  PrefixCache none(*backend_, memory(), {.snapshot_bytes = 16, .prefill_chunk = 8, .snapshot_spacing = 8});
  EXPECT_FALSE(none.is_enabled()) << "no snapshot fits";
  Sequence sequence = random_sequence(16);
  const auto tokens = ids(0, 16);
  EXPECT_FALSE(none.insert(*stream_, source(tokens, sequence, 16), sequence.slot, hidden_));
  EXPECT_FALSE(none.wants_insert(8, 16));
  EXPECT_EQ(none.lookup(ids(0, 20), true).num_tokens, 0);

  PrefixCacheOptions strict = options(2);
  strict.reuse_generated = false;
  PrefixCache cache(*backend_, memory(), strict);
  EXPECT_FALSE(cache.insert(*stream_, source(tokens, sequence, 8), sequence.slot, hidden_)) << "nobody would use it";
  EXPECT_TRUE(cache.insert(*stream_, source(tokens, sequence, 16), sequence.slot, hidden_));
  release(sequence);
}

TEST_F(PrefixCacheTest, SnapshotsAreAsManyAsWereAskedForHoweverMuchRoomThereIs) {
  PrefixCacheOptions few = options(5);
  for (const int32_t most : {3, 1, 0}) {
    few.max_snapshots = most;
    const PrefixCache cache(*backend_, memory(), few);
    EXPECT_EQ(cache.bytes() * 5, PrefixCache(*backend_, memory(), options(5)).bytes() * static_cast<size_t>(most));
    EXPECT_EQ(cache.is_enabled(), most > 0);
  }
}

TEST_F(PrefixCacheTest, WithoutADrafterNoHiddenRowIsKept) {
  PrefixCache cache(*backend_, {.target = &target_, .states = &states_}, options(2));
  Sequence first = random_sequence(16);
  const auto state = read(state_pieces(first.slot));
  const auto tokens = ids(0, 16);
  PrefixSource rows = source(tokens, first, 16);
  rows.draft_blocks = {};
  ASSERT_TRUE(cache.insert(*stream_, rows, first.slot, {}));
  EXPECT_THROW(cache.insert(*stream_, source(tokens, first, 16), first.slot, {}), Error) << "drafter rows";
  const PrefixMatch match = cache.lookup(ids(0, 17), false);
  Sequence second = empty_sequence();
  cache.resume(*stream_, match, {.target = &second.target, .state_slot = second.slot});
  EXPECT_EQ(read(state_pieces(second.slot)), state);
  EXPECT_EQ(second.target.blocks().size(), 4U);
  release(first);
  release(second);
}

TEST_F(PrefixCacheTest, RefusesPartsThatDoNotFit) {
  PrefixMemory parts = memory();
  parts.states = nullptr;
  EXPECT_THROW(PrefixCache(*backend_, parts, options(1)), Error);
  PrefixCacheOptions off_grid = options(1);
  off_grid.snapshot_spacing = 12;
  EXPECT_THROW(PrefixCache(*backend_, memory(), off_grid), Error);
  PrefixCacheOptions negative = options(1);
  negative.max_snapshots = -1;
  EXPECT_THROW(PrefixCache(*backend_, memory(), negative), Error);
  PagedKvCacheConfig other = kv_config(1);
  other.block_size = 8;
  PagedKvCache other_draft(*backend_, other);
  parts = memory();
  parts.draft = &other_draft;
  EXPECT_THROW(PrefixCache(*backend_, parts, options(1)), Error);
}

class AttentionPrefixCache : public PrefixCacheTest {
 protected:
  AttentionPrefixCache() : PrefixCacheTest(0) {}
};

TEST_F(AttentionPrefixCache, ModelsWithoutRecurrentStateNeedNoSnapshots) {
  PrefixCacheOptions exact{.snapshot_bytes = 0, .prefill_chunk = 8, .snapshot_spacing = 8, .row_invariant_prefill = true};
  PrefixCache cache(*backend_, memory(), exact);
  EXPECT_TRUE(cache.is_enabled());
  EXPECT_EQ(cache.bytes(), 0U);
  Sequence first = random_sequence(14);
  const auto target_rows = read(target_pieces(first));
  const auto turn = ids(0, 14);
  ASSERT_TRUE(cache.insert(*stream_, source(turn, first, 14), first.slot, hidden_));
  const PrefixMatch match = cache.lookup(ids(0, 14), true);
  EXPECT_EQ(match.num_tokens, 13);
  EXPECT_FALSE(match.needs_boundary_row);
  Sequence second = empty_sequence();
  cache.resume(*stream_, match, {.target = &second.target, .state_slot = second.slot, .draft = &second.draft});
  EXPECT_EQ(read(target_pieces(second)), target_rows);
  release(first);
  release(second);
}

TEST_F(PrefixCacheTest, APreemptedSequenceComesBackWithAllItsBitsInOtherBlocks) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kE4M3}) {
    PagedKvCache target(*backend_, kv_config(3, dtype));
    const auto everything = [&](const BlockTable& table, const Sequence& sequence) {
      std::vector<BufferView> views = pieces(target, table.blocks());
      for (const auto& part : {state_pieces(sequence.slot), draft_pieces(sequence)}) {
        views.insert(views.end(), part.begin(), part.end());
      }
      views.push_back(hidden_.view());
      return views;
    };
    Sequence sequence = random_sequence(19);
    BlockTable table = target.create_table();
    ASSERT_TRUE(table.reserve(19));
    auto views = everything(table, sequence);
    scramble(views);
    const auto bits = read(views);
    const HostCopy saved(*backend_, *stream_, views);
    EXPECT_EQ(saved.bytes(), bits.size());
    scramble(views);
    table.truncate(0);
    release(sequence);

    BlockTable other = target.create_table();
    ASSERT_TRUE(other.reserve(2 * kBlock));
    Sequence resumed = empty_sequence();
    ASSERT_TRUE(table.reserve(19) && resumed.draft.reserve(19));
    saved.restore(*stream_, everything(table, resumed));
    EXPECT_EQ(read(everything(table, resumed)), bits);
    views.pop_back();
    EXPECT_THROW(saved.restore(*stream_, views), Error) << "another number of bytes";
    EXPECT_EQ(read(everything(table, resumed)), bits);
    release(resumed);
  }
}

TEST_F(PrefixCacheTest, BlocksAreCopiedInAllLayersAndPiecesFollowTheTable) {
  scramble(pieces(target_, std::array{3, 5, 6}));
  const auto source_rows = read(pieces(target_, std::array{3}));
  const auto bystander = read(pieces(target_, std::array{6}));
  target_.copy_block(*stream_, 3, 5);
  EXPECT_EQ(read(pieces(target_, std::array{5})), source_rows);
  EXPECT_EQ(read(pieces(target_, std::array{6})), bystander);
  EXPECT_THROW(target_.copy_block(*stream_, 3, 3), Error);
  EXPECT_THROW(target_.copy_block(*stream_, 3, 16), Error);
  EXPECT_THROW(target_.copy_block(*stream_, -1, 3), Error);
  std::vector<BufferView> views;
  EXPECT_THROW(target_.append_views(std::array{0, 16}, views), Error);
  EXPECT_TRUE(views.empty());
  EXPECT_EQ(pieces(target_, std::array{4, 5, 6, 2}).size(), 8U) << "two runs, two layers, keys and values";
}

TEST_F(PrefixCacheTest, TablesShareBlocksOrTakeNone) {
  BlockTable first = target_.create_table();
  ASSERT_TRUE(first.reserve(3 * kBlock));
  BlockTable second = target_.create_table();
  second.share(first.blocks());
  EXPECT_EQ(target_.pool().num_free(), 13);
  ASSERT_TRUE(second.reserve(4 * kBlock));
  first.truncate(0);
  EXPECT_EQ(target_.pool().num_free(), 12);
  const std::array wild{second.blocks()[0], 15};
  EXPECT_THROW(second.share(wild), Error) << "block 15 is free";
  EXPECT_EQ(second.blocks().size(), 4U);
  EXPECT_EQ(target_.pool().num_references(second.blocks()[0]), 1);
  const std::vector<int32_t> many(9, second.blocks()[0]);
  EXPECT_THROW(second.share(many), Error) << "more than a sequence can have";
  second.truncate(0);
  EXPECT_EQ(target_.pool().num_free(), 16);
}

}  // namespace
}  // namespace foretoken
