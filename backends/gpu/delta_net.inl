// Gated delta net (core/ops/gated_delta_rule.h): the convolution, and what its kernels share.
#pragma once

#include "backends/gpu/delta_net_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {
namespace {

constexpr uint32_t kConvHistory = 3;

/// The rows of a sequence in this call, its slot, and the recorded rows that it commits; no rows where the slot is not one. Only
/// copies write what this reads, so that it may be read before the kernels before have ended.
struct SequenceRows {
  uint32_t first;
  uint32_t count;
  uint32_t slot;
  uint32_t committed;
};

template <class Params>
FORETOKEN_DEVICE SequenceRows sequence_rows(const Params& p, uint32_t b) {
  const auto* starts = pointer<const int32_t>(p.query_start_loc);
  const int32_t first = starts[b];
  const int32_t count = starts[b + 1] - first;
  const int32_t slot = pointer<const int32_t>(p.state_slots)[b];
  const int32_t committed = p.num_commit != 0 ? pointer<const int32_t>(p.num_commit)[b] : 0;
  if (count <= 0 || slot < 0 || static_cast<uint32_t>(slot) >= p.num_slots) return {0, 0, 0, 0};
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(count), static_cast<uint32_t>(slot),
          committed > 0 ? smaller(static_cast<uint32_t>(committed), p.record_rows) : 0};
}

/// Input of a channel `back` rows before row `row` of a sequence: of an earlier row of the call, a recorded one that is
/// committed, or of the state.
FORETOKEN_DEVICE float conv_input(const CausalConv1dSiluParams& p, const SequenceRows& rows, uint32_t channel, uint32_t row,
                                  uint32_t back) {
  if (back <= row) return load_float(p.x, (rows.first + row - back) * p.x_stride + channel, p.x_is_bf16 != 0);
  const uint32_t before = back - row;  // rows before the call
  if (before <= rows.committed) {
    const uint64_t record = uint64_t{rows.slot} * p.record_rows + rows.committed - before;
    return pointer<const float>(p.conv_record)[record * p.num_channels + channel];
  }
  const uint64_t at = uint64_t{rows.slot} * p.num_channels + channel;
  return pointer<const float>(p.conv_state)[at * kConvHistory + kConvHistory + rows.committed - before];
}

/// Thread (row lane, channel) of a row tile: outputs of rows row lane, row lane + kConvLanes, ... The first tile is the one that
/// reads the state and records, and that writes them when all its threads have.
__global__ void __launch_bounds__(kConvThreads) causal_conv1d_silu(const CausalConv1dSiluParams p) {
  constexpr uint32_t kTaps = kConvHistory + 1;
  constexpr uint32_t kHeld = kConvRows / kConvLanes;
  allow_next();
  const SequenceRows rows = sequence_rows(p, blockIdx.y);
  const uint32_t channel = blockIdx.x * kConvChannels + threadIdx.x % kConvChannels;
  const uint32_t lane = threadIdx.x / kConvChannels;
  const uint32_t first = blockIdx.z * kConvRows;
  const uint32_t count = first < rows.count && channel < p.num_channels ? smaller(kConvRows, rows.count - first) : 0;
  float weight[kTaps];
#pragma unroll
  for (uint32_t j = 0; j < kTaps; ++j) {
    weight[j] = count > 0 ? pointer<const float>(p.weight)[uint64_t{channel} * kTaps + j] : 0.0F;
  }
  wait_for_previous();
  float input[kHeld][kTaps];
#pragma unroll
  for (uint32_t u = 0; u < kHeld; ++u) {
    const uint32_t row = lane + u * kConvLanes;
    if (row >= count) continue;
#pragma unroll
    for (uint32_t j = 0; j < kTaps; ++j) input[u][j] = conv_input(p, rows, channel, first + row, kConvHistory - j);
  }
  // What the state holds after the call: the inputs in front of the row after its last, or of its first where it is recorded.
  float history[kConvHistory];
  const bool writes_state = first == 0 && lane == 0 && count > 0 && (p.records == 0 || rows.committed > 0);
#pragma unroll
  for (uint32_t j = 0; j < kConvHistory; ++j) {
    if (writes_state) history[j] = conv_input(p, rows, channel, p.records != 0 ? 0 : rows.count, kConvHistory - j);
  }
  if (first == 0) __syncthreads();
#pragma unroll
  for (uint32_t j = 0; j < kConvHistory; ++j) {
    if (!writes_state) continue;
    pointer<float>(p.conv_state)[(uint64_t{rows.slot} * p.num_channels + channel) * kConvHistory + j] = history[j];
  }
#pragma unroll
  for (uint32_t u = 0; u < kHeld; ++u) {
    const uint32_t row = lane + u * kConvLanes;
    if (row >= count) continue;
    const float(&x)[kTaps] = input[u];
    const float y = fmaf(weight[3], x[3], fmaf(weight[2], x[2], fmaf(weight[1], x[1], weight[0] * x[0])));
    store_float(p.out, (rows.first + first + row) * p.out_stride + channel, silu(y), p.out_is_bf16 != 0);
    if (p.records == 0 || first + row >= p.record_rows) continue;
    const uint64_t record = uint64_t{rows.slot} * p.record_rows + first + row;
    pointer<float>(p.conv_record)[record * p.num_channels + channel] = x[3];
  }
}

}  // namespace
}  // namespace foretoken::gpu
