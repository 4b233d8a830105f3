// Random sequences over one prefix index, against memory whose rows say what they were computed from, and against a naive
// reference of what a lookup must find.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "cache/block_table.h"
#include "cache/prefix_index.h"

namespace foretoken {
namespace {

constexpr int32_t kBlock = 4;
constexpr int32_t kMaxBlocks = 40;

struct Setup {
  const char* name;
  bool recurrent;
  int64_t chunk;  // of prefill
  int64_t grid;   // the same, or 1
  int32_t num_blocks;
  int32_t num_snapshots;
  bool reuse_generated = true;
  PrefixHashFn hash = prefix_hash;
};

uint64_t weak_hash(uint64_t, std::span<const int32_t> ids) { return static_cast<uint64_t>(ids[0]) & 1U; }

/// What a row was computed from: all tokens that settle it, and whether on the grid.
struct Row {
  uint64_t tokens = 0;
  bool on_grid = false;
  bool has_hidden = false;  // of a snapshot
};

using Memory = std::vector<Row>;  // by slot: block * kBlock + offset

uint64_t text_hash(std::span<const int32_t> ids) { return prefix_hash(12345, ids); }

struct Sequence {
  std::vector<int32_t> tokens;  // prompt, then text
  int64_t num_prompt = 0;
  int64_t num_done = 0;  // positions in the cache
  int64_t num_grid = 0;
  int64_t num_draft = 0;
  BlockTable target;
  std::optional<BlockTable> draft;
  Row state;                  // recurrent
  bool boundary_due = false;  // the drafter's row with key num_done - 1

  [[nodiscard]] std::span<const int32_t> head(int64_t count) const { return std::span(tokens).first(static_cast<size_t>(count)); }
};

/// A node by the tokens of its path and how many of them lie in nodes of the grid.
struct NaiveTree {
  struct Node {
    bool has_draft = false;
    bool has_snapshot = false;
    bool has_hidden = false;  // with the snapshot
  };
  std::map<std::pair<std::vector<int32_t>, int64_t>, Node> nodes;

  void insert(std::span<const int32_t> ids, int64_t num_grid, bool has_draft) {
    int64_t grid_end = 0;
    for (size_t end = 0; end < ids.size();) {
      end = std::min(end + kBlock, ids.size());
      if (static_cast<int64_t>(end) <= num_grid) grid_end = static_cast<int64_t>(end);
      Node& node = nodes[{std::vector(ids.begin(), ids.begin() + static_cast<int64_t>(end)), grid_end}];
      node.has_draft |= has_draft;
      node.has_snapshot |= end == ids.size();
      node.has_hidden |= has_draft && end == ids.size();
    }
  }

  /// Tokens, and how many of them are on the grid.
  [[nodiscard]] std::pair<int64_t, int64_t> lookup(std::span<const int32_t> ids, bool needs_draft, const Setup& setup) const {
    std::pair<int64_t, int64_t> best{0, 0};
    for (const auto& [key, node] : nodes) {
      const auto& [path, grid_end] = key;
      const auto end = static_cast<int64_t>(path.size());
      const bool on_grid = grid_end == end;
      if (path.size() > ids.size() || !std::equal(path.begin(), path.end(), ids.begin())) continue;
      if ((needs_draft && !node.has_draft) || (!on_grid && !setup.reuse_generated)) continue;
      int64_t count = end;
      if (setup.recurrent) {
        if (!node.has_snapshot || (needs_draft && !node.has_hidden) || path.size() == ids.size()) continue;
      } else {
        count = on_grid ? (end - 1) / setup.grid * setup.grid : end - 1;
      }
      best = std::max(best, {count, std::min(count, grid_end)});
    }
    return best.first == 0 ? std::pair<int64_t, int64_t>{0, 0} : best;
  }
};

class Simulation {
 public:
  Simulation(const Setup& setup, uint32_t seed)
      : setup_(setup),
        random_(seed),
        target_pool_(setup.num_blocks),
        draft_pool_(setup.num_blocks),
        snapshot_pool_(setup.num_snapshots),
        target_(static_cast<size_t>(setup.num_blocks) * kBlock),
        draft_(target_.size()),
        snapshots_(static_cast<size_t>(setup.num_snapshots)),
        index_({.target = &target_pool_, .draft = &draft_pool_, .snapshots = setup.recurrent ? &snapshot_pool_ : nullptr},
               {.block_size = kBlock, .grid = setup.grid, .reuse_generated = setup.reuse_generated, .hash = setup.hash}) {}

  void run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      const uint32_t action = random_() % 8;
      if (action < 2 && live_.size() < 5) start();
      if (action == 2 && !live_.empty()) finish();
      if (action > 2 && !live_.empty()) advance(*live_[random_() % live_.size()]);
      check_counts();
    }
    while (!live_.empty() && !::testing::Test::HasFailure()) finish();
    EXPECT_GT(hits_, steps / 40);
    EXPECT_EQ(index_.statistics().num_evicted_nodes > 100, !never_evicts());
    index_.clear();
    EXPECT_EQ(target_pool_.num_free(), setup_.num_blocks);
    EXPECT_EQ(draft_pool_.num_free(), setup_.num_blocks);
    EXPECT_EQ(snapshot_pool_.num_free(), setup_.num_snapshots);
  }

 private:
  [[nodiscard]] bool never_evicts() const { return setup_.num_blocks > 10000; }

  /// The beginning of an earlier text, then tokens of a small alphabet.
  std::vector<int32_t> random_prompt() {
    std::vector<int32_t> prompt;
    if (!texts_.empty()) {
      const auto& text = texts_[random_() % texts_.size()];
      const size_t count = random_() % 3 == 0 ? random_() % (text.size() + 1) : text.size();
      prompt.assign(text.begin(), text.begin() + static_cast<int64_t>(count));
    }
    const size_t extra = 1 + random_() % 20;
    for (size_t i = 0; i < extra; ++i) prompt.push_back(static_cast<int32_t>(random_() % 3));
    if (prompt.size() > 90) prompt.resize(90);
    return prompt;
  }

  void start() {
    auto sequence = std::make_unique<Sequence>(Sequence{
        .tokens = random_prompt(), .target = BlockTable(target_pool_, kBlock, kMaxBlocks), .draft = std::nullopt, .state = {}});
    sequence->num_prompt = static_cast<int64_t>(sequence->tokens.size());
    if (random_() % 4 != 0) sequence->draft.emplace(draft_pool_, kBlock, kMaxBlocks);
    const auto match = index_.lookup(sequence->tokens, sequence->draft.has_value());
    check_match(match, *sequence);
    hits_ += match.num_tokens > 0 ? 1 : 0;

    const int64_t budget = sequence->num_prompt + 40;
    const int64_t needed = (budget + kBlock - 1) / kBlock;
    const int64_t available = std::min(index_.num_available_target_blocks(), index_.num_available_draft_blocks());
    const int64_t nodes = index_.num_nodes();
    const bool fits = index_.make_room(needed, needed);
    ASSERT_EQ(fits, available >= needed);
    if (!fits) {
      ASSERT_EQ(index_.num_nodes(), nodes);
      return;
    }
    ASSERT_GE(std::min(target_pool_.num_free(), draft_pool_.num_free()), needed);
    resume(match, *sequence);
    ASSERT_TRUE(sequence->target.reserve(budget));
    ASSERT_TRUE(!sequence->draft || sequence->draft->reserve(budget));
    live_.push_back(std::move(sequence));
  }

  void check_match(const PrefixMatch& match, const Sequence& sequence) {
    const auto [expected, expected_grid] = naive_.lookup(sequence.tokens, sequence.draft.has_value(), setup_);
    if (never_evicts()) {
      ASSERT_EQ(match.num_tokens, expected);
      ASSERT_EQ(match.num_grid_tokens, expected_grid);
    }
    ASSERT_LE(match.num_tokens, expected) << "nothing is found that was not inserted";
    ASSERT_EQ(match.target_blocks.size(), static_cast<size_t>((match.num_tokens + kBlock - 1) / kBlock));
    for (int64_t i = 0; i < match.num_tokens; ++i) {
      const int64_t slot = match.target_blocks[static_cast<size_t>(i / kBlock)].block() * kBlock + i % kBlock;
      ASSERT_EQ(target_[static_cast<size_t>(slot)].tokens, text_hash(sequence.head(i + 1))) << "position " << i;
      ASSERT_TRUE(i >= match.num_grid_tokens || target_[static_cast<size_t>(slot)].on_grid) << "position " << i;
    }
    const bool with_draft = sequence.draft.has_value() && match.num_tokens > 0;
    ASSERT_EQ(match.num_draft_rows + (match.needs_boundary_row ? 1 : 0), with_draft ? match.num_tokens : 0);
    for (int64_t key = 0; key < match.num_draft_rows; ++key) {
      const int64_t slot = match.draft_blocks[static_cast<size_t>(key / kBlock)].block() * kBlock + key % kBlock;
      ASSERT_EQ(draft_[static_cast<size_t>(slot)].tokens, text_hash(sequence.head(key + 2))) << "key " << key;
    }
    ASSERT_EQ(static_cast<bool>(match.snapshot), setup_.recurrent && match.num_tokens > 0);
    if (!match.snapshot) return;
    const Row& state = snapshots_[static_cast<size_t>(match.snapshot.block())];
    ASSERT_EQ(state.tokens, text_hash(sequence.head(match.num_tokens)));
    ASSERT_TRUE(state.on_grid || match.num_grid_tokens < match.num_tokens);
    ASSERT_TRUE(state.has_hidden || !sequence.draft);
  }

  /// As PrefixCache::resume does on a device.
  void resume(const PrefixMatch& match, Sequence& sequence) {
    fill(sequence.target, match.target_blocks, match.num_tokens, target_);
    if (sequence.draft) fill(*sequence.draft, match.draft_blocks, match.num_draft_rows, draft_);
    sequence.num_done = match.num_tokens;
    sequence.num_grid = match.num_grid_tokens;
    sequence.num_draft = match.num_draft_rows;
    sequence.boundary_due = match.needs_boundary_row;
    if (match.snapshot) sequence.state = snapshots_[static_cast<size_t>(match.snapshot.block())];
  }

  static void fill(BlockTable& table, const std::vector<BlockReference>& blocks, int64_t rows, Memory& memory) {
    std::vector<int32_t> shared;
    for (int64_t i = 0; i < rows / kBlock; ++i) shared.push_back(blocks[static_cast<size_t>(i)].block());
    table.share(shared);
    if (rows % kBlock == 0) return;
    ASSERT_TRUE(table.reserve(rows));
    std::copy_n(memory.begin() + blocks.back().block() * kBlock, kBlock, memory.begin() + table.blocks().back() * kBlock);
  }

  void write(Sequence& sequence, int64_t position, bool on_grid) {
    target_[static_cast<size_t>(sequence.target.slot(position))] = {text_hash(sequence.head(position + 1)), on_grid};
  }

  /// Drafter rows up to and with pair key `last`.
  void append_draft(Sequence& sequence, int64_t last) {
    if (!sequence.draft) return;
    for (; sequence.num_draft <= last; ++sequence.num_draft) {
      draft_[static_cast<size_t>(sequence.draft->slot(sequence.num_draft))] = {text_hash(sequence.head(sequence.num_draft + 2)),
                                                                               true};
    }
  }

  /// A chunk of the prompt, or a round of text with drafts that fail behind it.
  void advance(Sequence& sequence) {
    if (sequence.num_done < sequence.num_prompt) {
      const int64_t border = (sequence.num_done / setup_.chunk + 1) * setup_.chunk;
      step(sequence, std::min(border, sequence.num_prompt) - sequence.num_done);
      append_draft(sequence, sequence.num_done - 2);
      const bool due = sequence.num_done % setup_.chunk == 0 && random_() % 3 != 0;
      if (due) insert(sequence);
      return;
    }
    const int64_t room = sequence.num_prompt + 30 - sequence.num_done;
    if (room <= 0) return;
    const int64_t accepted = std::min<int64_t>(1 + random_() % 4, room);
    for (int64_t i = 0; i < accepted; ++i) sequence.tokens.push_back(static_cast<int32_t>(random_() % 3));
    step(sequence, accepted);
    for (int64_t i = 0; i < 3; ++i) {
      target_[static_cast<size_t>(sequence.target.slot(sequence.num_done + i))] = {random_(), true};
      if (sequence.draft) draft_[static_cast<size_t>(sequence.draft->slot(sequence.num_draft + i))] = {random_(), true};
    }
    append_draft(sequence, sequence.num_done - 2);
  }

  void step(Sequence& sequence, int64_t rows) {
    const bool prompt = sequence.num_done < sequence.num_prompt;
    const bool whole = prompt && rows == setup_.chunk && sequence.num_done % setup_.chunk == 0;
    const bool on_grid = sequence.num_grid == sequence.num_done && (setup_.grid == 1 || whole);
    for (int64_t i = 0; i < rows; ++i) write(sequence, sequence.num_done + i, on_grid);
    sequence.num_done += rows;
    if (on_grid) sequence.num_grid = sequence.num_done;
    sequence.state = {text_hash(sequence.head(sequence.num_done)), on_grid};
  }

  void insert(Sequence& sequence) {
    const PrefixSource source{.token_ids = sequence.head(sequence.num_done),
                              .target_blocks = sequence.target.blocks(),
                              .draft_blocks = sequence.draft ? sequence.draft->blocks() : std::span<const int32_t>(),
                              .num_grid_tokens = sequence.num_grid};
    if (setup_.recurrent) {
      if (index_.contains(source)) return;
      std::optional<BlockReference> snapshot = index_.allocate_snapshot();
      if (!snapshot) return;
      Row& state = snapshots_[static_cast<size_t>(snapshot->block())] = sequence.state;
      state.has_hidden = sequence.draft.has_value();
      index_.insert(source, std::move(*snapshot));
    } else {
      index_.insert(source);
    }
    ASSERT_TRUE(index_.contains(source));
    naive_.insert(source.token_ids, sequence.num_grid, sequence.draft.has_value());
  }

  void finish() {
    const size_t idx = random_() % live_.size();
    Sequence& sequence = *live_[idx];
    for (int64_t i = 0; i < sequence.num_done; ++i) {
      ASSERT_EQ(target_[static_cast<size_t>(sequence.target.slot(i))].tokens, text_hash(sequence.head(i + 1)))
          << "somebody wrote position " << i << " of a running sequence";
    }
    for (int64_t key = 0; key < sequence.num_draft; ++key) {
      ASSERT_EQ(draft_[static_cast<size_t>(sequence.draft->slot(key))].tokens, text_hash(sequence.head(key + 2)));
    }
    if (sequence.num_done > 0 && random_() % 4 != 0) {
      append_draft(sequence, sequence.num_done - 2);
      insert(sequence);
      texts_.emplace_back(sequence.head(sequence.num_done).begin(), sequence.head(sequence.num_done).end());
    }
    live_.erase(live_.begin() + static_cast<int64_t>(idx));
  }

  /// Blocks that only the index holds are those that no running sequence has.
  void check_counts() {
    std::map<int32_t, int32_t> target;
    std::map<int32_t, int32_t> draft;
    for (const auto& sequence : live_) {
      for (int32_t block : sequence->target.blocks()) ++target[block];
      if (!sequence->draft) continue;
      for (int32_t block : sequence->draft->blocks()) ++draft[block];
    }
    ASSERT_EQ(index_.num_available_target_blocks(), setup_.num_blocks - static_cast<int64_t>(target.size()));
    ASSERT_EQ(index_.num_available_draft_blocks(), setup_.num_blocks - static_cast<int64_t>(draft.size()));
  }

  Setup setup_;
  std::mt19937 random_;
  BlockPool target_pool_;
  BlockPool draft_pool_;
  BlockPool snapshot_pool_;
  Memory target_;
  Memory draft_;
  std::vector<Row> snapshots_;
  PrefixIndex index_;
  NaiveTree naive_;
  std::vector<std::vector<int32_t>> texts_;
  std::vector<std::unique_ptr<Sequence>> live_;
  int hits_ = 0;
};

class PrefixModel : public ::testing::TestWithParam<Setup> {};

TEST_P(PrefixModel, RandomSequencesFindTheirRowsAndNobodyElses) {
  const bool roomy = GetParam().num_blocks > 10000;
  for (uint32_t seed = 1; seed <= 3 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation(GetParam(), seed).run(roomy ? 1000 : 4000);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PrefixModel,
    ::testing::Values(Setup{"recurrent_roomy", true, 8, 8, 20000, 5000}, Setup{"recurrent_tight", true, 8, 8, 150, 12},
                      Setup{"recurrent_off_blocks", true, 6, 6, 20000, 5000},
                      Setup{"recurrent_off_blocks_tight", true, 6, 6, 150, 9}, Setup{"recurrent_exact", true, 8, 1, 20000, 5000},
                      Setup{"recurrent_strict", true, 8, 8, 20000, 5000, false},
                      Setup{"recurrent_collisions", true, 8, 8, 150, 12, true, weak_hash},
                      Setup{"attention_roomy", false, 8, 8, 20000, 1}, Setup{"attention_tight", false, 8, 8, 150, 1},
                      Setup{"attention_exact", false, 8, 1, 20000, 1}, Setup{"attention_off_blocks", false, 6, 6, 20000, 1},
                      Setup{"attention_collisions", false, 8, 1, 150, 1, true, weak_hash}),
    [](const auto& setup) { return std::string(setup.param.name); });

}  // namespace
}  // namespace foretoken
