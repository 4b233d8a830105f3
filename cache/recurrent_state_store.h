// Recurrent and convolution states of the gated delta net layers, one slot per sequence, with room for the rows that a verify
// step records. Rolling back is not committing: no state is ever copied for it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "core/kv_view.h"

namespace foretoken {

struct RecurrentStateConfig {
  int64_t num_layers = 0;
  int64_t num_slots = 1;
  int64_t max_record_rows = 16;  // rows of the widest verify step
  int64_t conv_channels = 0;
  int64_t num_value_heads = 0;
  int64_t key_head_dim = 0;
  int64_t value_head_dim = 0;
};

/// Not thread-safe.
class RecurrentStateStore {
 public:
  /// Allocates everything. Throws OutOfMemory, nothing left allocated.
  RecurrentStateStore(GpuBackend& backend, const RecurrentStateConfig& config);

  [[nodiscard]] const RecurrentStateConfig& config() const { return config_; }
  [[nodiscard]] RecurrentStateView layer(int64_t layer_idx) const;
  /// A free slot with its states set to zero by work on `stream`; nothing when all are in use.
  [[nodiscard]] std::optional<int32_t> allocate(Stream& stream);
  /// Throws InternalError for a slot that is not in use.
  void release(int32_t slot);

  /// num_commit of a sequence between a verify step and its read-back: nothing may be kept of its states then.
  static constexpr int32_t kAcceptUnknown = -1;
  /// Adds the first `num_commit` recorded rows to the states of `slot`, by work on `stream`, with the bits that the sequence's
  /// next step would give them; the records are used up. Before states are copied to where they outlive the sequence. Throws
  /// InvalidState for kAcceptUnknown, InvalidArgument for more rows than can be recorded.
  void commit(Stream& stream, int32_t slot, int32_t num_commit);
  /// Appends the memory of the states of `slot`, layer by layer, without records: state_bytes(config()) in all. Throws
  /// InternalError for a slot that is not in use.
  void append_views(int32_t slot, std::vector<BufferView>& views) const;
  [[nodiscard]] static size_t state_bytes(const RecurrentStateConfig& config);
  [[nodiscard]] int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  [[nodiscard]] size_t bytes() const { return memory_.bytes(); }
  [[nodiscard]] static size_t bytes_for(const RecurrentStateConfig& config);

 private:
  void check_in_use(int32_t slot) const;

  RecurrentStateConfig config_;
  std::vector<int32_t> free_;
  Buffer
      memory_;  // per layer: conv_state, state, conv_record, key_record, delta_record, decay_record; then what commit works with
};

}  // namespace foretoken
