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

/// The last inputs of a channel.
struct ConvHistory {
  float oldest;
  float older;
  float old;

  FORETOKEN_DEVICE void push(float x) {
    oldest = older;
    older = old;
    old = x;
  }
  FORETOKEN_DEVICE void store(float* state) const {
    state[0] = oldest;
    state[1] = older;
    state[2] = old;
  }
};

/// Inputs in front of row `first` of a sequence: earlier rows of the call, recorded ones that are committed, and the state.
FORETOKEN_DEVICE ConvHistory conv_history(const CausalConv1dSiluParams& p, const SequenceRows& rows, uint32_t channel,
                                          uint32_t first, const float* state) {
  float inputs[kConvHistory];
#pragma unroll
  for (uint32_t j = 0; j < kConvHistory; ++j) {
    const uint32_t back = kConvHistory - j;  // rows before `first`
    if (back <= first) {
      inputs[j] = load_float(p.x, (rows.first + first - back) * p.x_stride + channel, p.x_is_bf16 != 0);
    } else if (back <= first + rows.committed) {
      const uint64_t record = uint64_t{rows.slot} * p.record_rows + first + rows.committed - back;
      inputs[j] = pointer<const float>(p.conv_record)[record * p.num_channels + channel];
    } else {
      inputs[j] = state[first + rows.committed + j];
    }
  }
  return {inputs[0], inputs[1], inputs[2]};
}

/// Rows first .. first + count of one channel, from and into `history`.
template <class Element>
FORETOKEN_DEVICE void convolve(const CausalConv1dSiluParams& p, const SequenceRows& rows, uint32_t channel, uint32_t first,
                               uint32_t count, const float (&weight)[kConvHistory + 1], ConvHistory& history) {
  constexpr uint32_t kBatch = 4;  // inputs that are loaded together
  for (uint32_t begin = first; begin < first + count; begin += kBatch) {
    const uint32_t batch = smaller(kBatch, first + count - begin);
    float x[kBatch];
#pragma unroll
    for (uint32_t u = 0; u < kBatch; ++u) {
      x[u] = u < batch ? Element::load(p.x, (rows.first + begin + u) * p.x_stride + channel) : 0.0F;
    }
#pragma unroll
    for (uint32_t u = 0; u < kBatch; ++u) {
      if (u >= batch) continue;
      const float y =
          fmaf(weight[3], x[u], fmaf(weight[2], history.old, fmaf(weight[1], history.older, weight[0] * history.oldest)));
      store_float(p.out, (rows.first + begin + u) * p.out_stride + channel, silu(y), p.out_is_bf16 != 0);
      history.push(x[u]);
      if (p.records == 0 || begin + u >= p.record_rows) continue;
      pointer<float>(p.conv_record)[(uint64_t{rows.slot} * p.record_rows + begin + u) * p.num_channels + channel] = x[u];
    }
  }
}

/// A channel of a row tile. The first tile reads the state and, having done so, is the one that writes it.
__global__ void __launch_bounds__(kConvThreads) causal_conv1d_silu(const CausalConv1dSiluParams p) {
  allow_next();
  const SequenceRows rows = sequence_rows(p, blockIdx.y);
  const uint32_t channel = blockIdx.x * kConvThreads + threadIdx.x;
  const uint32_t first = blockIdx.z * kConvRows;
  const bool exists = first < rows.count && channel < p.num_channels;
  float weight[kConvHistory + 1] = {};
#pragma unroll
  for (uint32_t j = 0; j <= kConvHistory; ++j) {
    if (exists) weight[j] = pointer<const float>(p.weight)[uint64_t{channel} * (kConvHistory + 1) + j];
  }
  wait_for_previous();
  if (!exists) return;
  auto* state = pointer<float>(p.conv_state) + (uint64_t{rows.slot} * p.num_channels + channel) * kConvHistory;
  ConvHistory history = conv_history(p, rows, channel, first, state);
  if (p.records != 0 && rows.committed > 0) history.store(state);
  const uint32_t count = p.records != 0 ? rows.count : smaller(kConvRows, rows.count - first);
  if (p.records == 0 && first == 0) {
    conv_history(p, rows, channel, rows.count, state).store(state);
  }
  with_element(p.x_is_bf16, [&](auto element) { convolve<decltype(element)>(p, rows, channel, first, count, weight, history); });
}

}  // namespace
}  // namespace foretoken::gpu
