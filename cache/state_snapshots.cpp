#include "cache/state_snapshots.h"

#include <string>
#include <vector>

#include "cache/gather_copy.h"
#include "core/error.h"

namespace foretoken {
namespace {

constexpr size_t kSnapshotAlignment = 256;  // bytes

void check_hidden_row(const Tensor& row, size_t bytes) {
  if (row.is_contiguous() && row.bytes() == bytes) return;
  throw Error(ErrorCode::kInvalidArgument, {.what = "hidden row of a snapshot",
                                            .expected = std::to_string(bytes) + " contiguous bytes",
                                            .got = std::to_string(row.bytes()) + " bytes"});
}

}  // namespace

StateSnapshots::StateSnapshots(GpuBackend& backend, const RecurrentStateStore& states, size_t hidden_row_bytes,
                               int32_t num_snapshots)
    : states_(states),
      hidden_row_bytes_(hidden_row_bytes),
      snapshot_bytes_(bytes_per_snapshot(states.config(), hidden_row_bytes)),
      pool_(num_snapshots),
      memory_(backend.allocate(snapshot_bytes_ * static_cast<size_t>(num_snapshots))) {}

size_t StateSnapshots::bytes_per_snapshot(const RecurrentStateConfig& config, size_t hidden_row_bytes) {
  const size_t bytes = RecurrentStateStore::state_bytes(config) + hidden_row_bytes;
  return (bytes + kSnapshotAlignment - 1) / kSnapshotAlignment * kSnapshotAlignment;
}

BufferView StateSnapshots::state_view(int32_t snapshot) const {
  return memory_.view().slice(static_cast<size_t>(snapshot) * snapshot_bytes_,
                              RecurrentStateStore::state_bytes(states_.config()));
}

BufferView StateSnapshots::hidden_view(int32_t snapshot) const {
  const BufferView states = state_view(snapshot);
  return memory_.view().slice(states.offset + states.bytes, hidden_row_bytes_);
}

void StateSnapshots::store(Stream& stream, int32_t slot, const Tensor& hidden_row, int32_t snapshot) {
  if (hidden_row) check_hidden_row(hidden_row, hidden_row_bytes_);
  std::vector<BufferView> pieces;
  states_.append_views(slot, pieces);
  stream.run([&](CommandList& cmd) {
    gather(cmd, pieces, state_view(snapshot));
    if (hidden_row) cmd.copy(hidden_row.view(), hidden_view(snapshot));
  });
}

void StateSnapshots::load(Stream& stream, int32_t snapshot, int32_t slot) const {
  std::vector<BufferView> pieces;
  states_.append_views(slot, pieces);
  stream.run([&](CommandList& cmd) { scatter(cmd, state_view(snapshot), pieces); });
}

void StateSnapshots::load_hidden(Stream& stream, int32_t snapshot, const Tensor& hidden_row) const {
  check_hidden_row(hidden_row, hidden_row_bytes_);
  stream.copy(hidden_view(snapshot), hidden_row.view());
}

}  // namespace foretoken
