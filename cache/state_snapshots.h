// Device memory for copies of recurrent states, each with the hidden state of the token that it ends with.
#pragma once

#include <cstdint>

#include "cache/block_pool.h"
#include "cache/recurrent_state_store.h"

namespace foretoken {

/// Snapshot i is a block of pool(). Not thread-safe.
class StateSnapshots {
 public:
  /// Snapshots of slots of `states`, which must outlive it, each with a hidden row of `hidden_row_bytes`. Allocates everything.
  /// Throws OutOfMemory, nothing left allocated; InvalidArgument for less than one snapshot.
  StateSnapshots(GpuBackend& backend, const RecurrentStateStore& states, size_t hidden_row_bytes, int32_t num_snapshots);

  [[nodiscard]] BlockPool& pool() { return pool_; }
  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  [[nodiscard]] size_t bytes() const { return memory_.bytes(); }
  [[nodiscard]] static size_t bytes_per_snapshot(const RecurrentStateConfig& config, size_t hidden_row_bytes);

  /// The states of `slot`, which must be committed, and `hidden_row` (contiguous, hidden_row_bytes; absent: none) -> snapshot, by
  /// work on `stream`. Throws InvalidArgument for a row of another size.
  void store(Stream& stream, int32_t slot, const Tensor& hidden_row, int32_t snapshot);
  /// Snapshot -> the states of `slot`.
  void load(Stream& stream, int32_t snapshot, int32_t slot) const;
  /// Snapshot -> `hidden_row`. Throws InvalidArgument for a row of another size.
  void load_hidden(Stream& stream, int32_t snapshot, const Tensor& hidden_row) const;

 private:
  [[nodiscard]] BufferView state_view(int32_t snapshot) const;
  [[nodiscard]] BufferView hidden_view(int32_t snapshot) const;

  const RecurrentStateStore& states_;
  size_t hidden_row_bytes_;
  size_t snapshot_bytes_;
  BlockPool pool_;
  Buffer memory_;  // [num_snapshots, states of a slot then hidden row]
};

}  // namespace foretoken
