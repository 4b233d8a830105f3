// What the kernels of the gated delta net share (core/ops/gated_delta_rule.h).
#ifndef FORETOKEN_DELTA_NET_GLSL
#define FORETOKEN_DELTA_NET_GLSL

// The rows of a sequence in this call, its slot, and the recorded rows that it commits; no rows where the slot is not one.
struct SequenceRows {
  uint first;
  uint count;
  uint slot;
  uint committed;
};

SequenceRows sequence_rows(uint b) {
  const int first = load_i32(params.query_start_loc, b);
  const int count = load_i32(params.query_start_loc, b + 1) - first;
  const int slot = load_i32(params.state_slots, b);
  const int committed = params.num_commit != 0 ? load_i32(params.num_commit, b) : 0;
  if (count <= 0 || slot < 0 || uint(slot) >= params.num_slots) return SequenceRows(0, 0, 0, 0);
  return SequenceRows(uint(first), uint(count), uint(slot), committed > 0 ? min(uint(committed), params.record_rows) : 0);
}

#endif
