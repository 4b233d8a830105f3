// Recurrent and convolution states of the gated delta net layers, one slot per sequence, with room for the rows that a verify
// step records. Rolling back is not committing: no state is ever copied.
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
  [[nodiscard]] int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  [[nodiscard]] size_t bytes() const { return memory_.bytes(); }
  [[nodiscard]] static size_t bytes_for(const RecurrentStateConfig& config);

 private:
  RecurrentStateConfig config_;
  std::vector<int32_t> free_;
  Buffer memory_;  // per layer: conv_state, state, conv_record, key_record, delta_record, decay_record
};

}  // namespace foretoken
