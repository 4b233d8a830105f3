// States that are kept after a verify step: committed, they have the bits of a sequence that never speculated.
#include "backends/ops.h"
#include "cache/host_copy.h"
#include "cache/recurrent_state_store.h"
#include "cache/state_snapshots.h"
#include "core/error.h"
#include "tests/unit/cache/cache_device.h"

namespace foretoken {
namespace {

constexpr int64_t kRows = 5;

/// Two layers of a delta net whose inputs are the same rows for every sequence.
class StateCommit : public CacheDevice, public ::testing::WithParamInterface<int64_t> {
 protected:
  StateCommit() {
    for (const Tensor& tensor : {x_, weight_, b_, a_, decay_, bias_}) fill_values(tensor);
  }

  Tensor memory(const Shape& shape, DType dtype = DType::kF32) {
    buffers_.push_back(backend_->allocate(dtype_bytes(dtype, static_cast<size_t>(shape.num_elements()))));
    return buffers_.back().tensor(dtype, shape);
  }

  /// Rows [first, first + count) of the inputs on `slot`, after it has committed `num_commit` recorded ones.
  void step(int32_t slot, int64_t first, int64_t count, int32_t num_commit, StateUpdate update) {
    const std::array<int32_t, 4> values{0, static_cast<int32_t>(count), slot, num_commit};
    write(integers_.view(), std::as_bytes(std::span(values)));
    stream_->run([&](CommandList& cmd) {
      for (int64_t i = 0; i < config_.num_layers; ++i) {
        const RecurrentStateView view = store_.layer(i);
        ops::dispatch(cmd, CausalConv1dSilu{.x = x_.rows(first, count),
                                            .weight = weight_,
                                            .query_start_loc = integers_.rows(0, 2),
                                            .state_slots = integers_.rows(2, 1),
                                            .num_commit = integers_.rows(3, 1),
                                            .conv_state = view.conv_state,
                                            .conv_record = view.conv_record,
                                            .out = conv_out_.rows(0, count),
                                            .update = update});
        ops::dispatch(cmd, GatedDeltaRule{.qkv = conv_out_.rows(0, count),
                                          .b = b_.rows(first, count),
                                          .a = a_.rows(first, count),
                                          .A_log = decay_,
                                          .dt_bias = bias_,
                                          .query_start_loc = integers_.rows(0, 2),
                                          .state_slots = integers_.rows(2, 1),
                                          .num_commit = integers_.rows(3, 1),
                                          .state = view.state,
                                          .key_record = view.key_record,
                                          .delta_record = view.delta_record,
                                          .decay_record = view.decay_record,
                                          .z = {},
                                          .norm = {},
                                          .out = out_.rows(0, count),
                                          .update = update});
      }
    });
  }

  std::vector<std::byte> states(int32_t slot) {
    std::vector<BufferView> pieces;
    store_.append_views(slot, pieces);
    return read(pieces);
  }

  /// States after the first `count` rows, one by one.
  std::vector<std::byte> plain_states(int64_t count) {
    const int32_t slot = *store_.allocate(*stream_);
    for (int64_t row = 0; row < count; ++row) step(slot, row, 1, 0, StateUpdate::kInPlace);
    const auto result = states(slot);
    store_.release(slot);
    return result;
  }

  const int64_t head_dim_ = GetParam();
  const RecurrentStateConfig config_{.num_layers = 2,
                                     .num_slots = 3,
                                     .max_record_rows = kRows,
                                     .conv_channels = 2 * 2 * head_dim_ + 4 * head_dim_,
                                     .num_value_heads = 4,
                                     .key_head_dim = head_dim_,
                                     .value_head_dim = head_dim_};
  RecurrentStateStore store_{*backend_, config_};
  std::vector<Buffer> buffers_;
  Tensor x_ = memory({kRows + 1, config_.conv_channels});
  Tensor weight_ = memory({config_.conv_channels, 4});
  Tensor b_ = memory({kRows + 1, 4});
  Tensor a_ = memory({kRows + 1, 4});
  Tensor decay_ = memory({4});
  Tensor bias_ = memory({4});
  Tensor conv_out_ = memory({kRows, config_.conv_channels});
  Tensor out_ = memory({kRows, 4, head_dim_});
  Tensor integers_ = memory({4}, DType::kI32);
};

TEST_P(StateCommit, GivesTheStatesOfASequenceThatNeverSpeculatedAtEveryAcceptCount) {
  for (int32_t kept = 1; kept <= kRows; ++kept) {
    const int32_t slot = *store_.allocate(*stream_);
    const int32_t bystander = *store_.allocate(*stream_);
    step(bystander, 2, 1, 0, StateUpdate::kInPlace);
    const auto bystander_states = states(bystander);
    step(slot, 0, 1, 0, StateUpdate::kInPlace);
    const auto before = states(slot);
    step(slot, 1, kRows - 1, 0, StateUpdate::kRecord);
    ASSERT_EQ(states(slot), before) << "a verify step leaves the states as they were";
    store_.commit(*stream_, slot, kept - 1);
    EXPECT_EQ(states(slot), plain_states(kept)) << kept << " rows";
    EXPECT_EQ(states(bystander), bystander_states);
    // The next step, which has nothing left to commit.
    if (kept < kRows) {
      step(slot, kept, 1, 0, StateUpdate::kInPlace);
      EXPECT_EQ(states(slot), plain_states(kept + 1));
    }
    store_.release(slot);
    store_.release(bystander);
  }
}

TEST_P(StateCommit, SavedStatesComeBackInAnotherSlotAtEveryAcceptCount) {
  for (int32_t kept = 0; kept < kRows; ++kept) {
    const int32_t slot = *store_.allocate(*stream_);
    step(slot, 0, 1, 0, StateUpdate::kInPlace);
    step(slot, 1, kRows - 1, 0, StateUpdate::kRecord);
    store_.commit(*stream_, slot, kept);
    std::vector<BufferView> pieces;
    store_.append_views(slot, pieces);
    const HostCopy saved(*backend_, *stream_, pieces);
    EXPECT_EQ(saved.bytes(), RecurrentStateStore::state_bytes(config_));
    scramble(pieces);

    const int32_t other = *store_.allocate(*stream_);
    store_.release(slot);
    ASSERT_NE(other, slot);
    std::vector<BufferView> back;
    store_.append_views(other, back);
    saved.restore(*stream_, back);
    EXPECT_EQ(states(other), plain_states(1 + kept)) << kept << " accepted";
    step(other, 1 + kept, 1, 0, StateUpdate::kInPlace);
    EXPECT_EQ(states(other), plain_states(2 + kept));
    store_.release(other);
  }
}

TEST_P(StateCommit, NothingIsKeptBeforeTheAcceptCountIsKnown) {
  const int32_t slot = *store_.allocate(*stream_);
  step(slot, 0, 3, 0, StateUpdate::kRecord);
  const auto before = states(slot);
  try {
    store_.commit(*stream_, slot, RecurrentStateStore::kAcceptUnknown);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidState);
  }
  EXPECT_THROW(store_.commit(*stream_, slot, kRows + 1), Error);
  EXPECT_THROW(store_.commit(*stream_, slot, -2), Error);
  EXPECT_THROW(store_.commit(*stream_, 2, 1), Error) << "a slot that nobody has";
  store_.commit(*stream_, slot, 0);
  EXPECT_EQ(states(slot), before);
}

TEST_P(StateCommit, SnapshotsOutliveTheirSlot) {
  StateSnapshots snapshots(*backend_, store_, 64, 2);
  EXPECT_EQ(snapshots.bytes(), 2 * StateSnapshots::bytes_per_snapshot(config_, 64));
  const Tensor hidden = memory({2, 16});
  fill_values(hidden);
  const int32_t slot = *store_.allocate(*stream_);
  for (int32_t snapshot = 0; snapshot < 2; ++snapshot) {
    step(slot, snapshot, 1, 0, StateUpdate::kInPlace);
    snapshots.store(*stream_, slot, hidden.rows(snapshot, 1), snapshot);
  }
  store_.release(slot);
  const Tensor row = memory({1, 16});
  for (int32_t snapshot = 0; snapshot < 2; ++snapshot) {
    const int32_t resumed = *store_.allocate(*stream_);
    snapshots.load(*stream_, snapshot, resumed);
    EXPECT_EQ(states(resumed), plain_states(1 + snapshot));
    snapshots.load_hidden(*stream_, snapshot, row);
    EXPECT_EQ(read(row.view()), read(hidden.rows(snapshot, 1).view()));
    store_.release(resumed);
  }
  EXPECT_THROW(snapshots.load_hidden(*stream_, 0, hidden), Error);
  const int32_t used = *store_.allocate(*stream_);
  EXPECT_THROW(snapshots.store(*stream_, used, hidden, 0), Error);
  EXPECT_THROW(snapshots.load(*stream_, 0, 2), Error);
}

INSTANTIATE_TEST_SUITE_P(HeadDims, StateCommit, ::testing::Values(16, 128));

}  // namespace
}  // namespace foretoken
