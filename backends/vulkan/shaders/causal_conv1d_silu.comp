// causal_conv1d_silu (core/ops/gated_delta_rule.h): grid (channel tile, sequence, row tile).
#version 460
#include "backends/vulkan/shaders/device.glsl"

struct CausalConv1dSiluParams {
  uint64_t x;
  uint64_t weight;
  uint64_t query_start_loc;
  uint64_t state_slots;
  uint64_t num_commit;
  uint64_t conv_state;
  uint64_t conv_record;
  uint64_t out_;
  uint64_t x_stride;
  uint64_t out_stride;
  uint num_channels;
  uint num_slots;
  uint record_rows;
  uint records;
  uint x_is_bf16;
  uint out_is_bf16;
};
PARAMS(CausalConv1dSiluParams);

#include "backends/vulkan/shaders/delta_net.glsl"

const uint kConvChannels = 64;
const uint kConvLanes = 4;
const uint kConvRows = 16;
const uint kConvHistory = 3;
const uint kTaps = kConvHistory + 1;
const uint kHeld = kConvRows / kConvLanes;

// Input of a channel `back` rows before row `row` of a sequence: of an earlier row of the call, a recorded one that is
// committed, or of the state.
float conv_input(SequenceRows rows, uint channel, uint row, uint back) {
  if (back <= row) return load_float(params.x, (rows.first + row - back) * params.x_stride + channel, params.x_is_bf16);
  const uint before = back - row;  // rows before the call
  if (before <= rows.committed) {
    const uint64_t record = uint64_t(rows.slot) * params.record_rows + rows.committed - before;
    return load_f32(params.conv_record, record * params.num_channels + channel);
  }
  const uint64_t at = uint64_t(rows.slot) * params.num_channels + channel;
  return load_f32(params.conv_state, at * kConvHistory + kConvHistory + rows.committed - before);
}

// Output of a row, from its input and those before it.
void store_row(SequenceRows rows, uint channel, uint row, vec4 weight, vec4 x) {
  precise float y = weight.x * x.x;
  y = fma(weight.w, x.w, fma(weight.z, x.z, fma(weight.y, x.y, y)));
  store_float(params.out_, (rows.first + row) * params.out_stride + channel, silu(y), params.out_is_bf16);
  if (params.records == 0 || row >= params.record_rows) return;
  const uint64_t record = uint64_t(rows.slot) * params.record_rows + row;
  store_f32(params.conv_record, record * params.num_channels + channel, x.w);
}

// Invocation (row lane, channel) of a row tile: outputs of rows row lane, row lane + kConvLanes, ... The first tile is the one
// that reads the state and records, and that writes them when all its invocations have.
void main() {
  const SequenceRows rows = sequence_rows(gl_WorkGroupID.y);
  const uint channel = gl_WorkGroupID.x * kConvChannels + thread_index() % kConvChannels;
  const uint lane = thread_index() / kConvChannels;
  const uint first = gl_WorkGroupID.z * kConvRows;
  const uint count = first < rows.count && channel < params.num_channels ? min(kConvRows, rows.count - first) : 0;
  vec4 inputs[kHeld];
  [[unroll]] for (uint u = 0; u < kHeld; ++u) {
    const uint row = lane + u * kConvLanes;
    inputs[u] = vec4(0.0);
    [[unroll]] for (uint j = 0; j < kTaps; ++j) {
      if (row < count) inputs[u][j] = conv_input(rows, channel, first + row, kConvHistory - j);
    }
  }
  // What the state holds after the call: the inputs in front of the row after its last, or of its first where it is recorded.
  const bool writes_state = first == 0 && lane == 0 && count > 0 && (params.records == 0 || rows.committed > 0);
  float history[kConvHistory];
  [[unroll]] for (uint j = 0; j < kConvHistory; ++j) {
    history[j] = writes_state ? conv_input(rows, channel, params.records != 0 ? 0 : rows.count, kConvHistory - j) : 0.0;
  }
  barrier();
  if (count == 0) return;
  if (writes_state) {
    const uint64_t at = (uint64_t(rows.slot) * params.num_channels + channel) * kConvHistory;
    [[unroll]] for (uint j = 0; j < kConvHistory; ++j) store_f32(params.conv_state, at + j, history[j]);
  }
  const uint64_t taps = uint64_t(channel) * kTaps;
  const vec4 weight =
      vec4(load_f32(params.weight, taps), load_f32(params.weight, taps + 1), load_f32(params.weight, taps + 2), load_f32(params.weight, taps + 3));
  [[unroll]] for (uint u = 0; u < kHeld; ++u) {
    const uint row = lane + u * kConvLanes;
    if (row < count) store_row(rows, channel, first + row, weight, inputs[u]);
  }
}
