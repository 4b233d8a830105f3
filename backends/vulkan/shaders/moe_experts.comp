// moe_experts_up (GATED) and the products of moe_experts_down (core/ops/moe.h): a work group takes some columns of one expert,
// for all of its pairs. GATED: a tile is two columns, gate rows n and up rows out_features + n; otherwise four columns.
#version 460
#extension GL_KHR_shader_subgroup_ballot : require
#define TILE_BUFFERS 2
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/tile_sums.glsl"

PARAMS(MoeExpertsParams);

const uint kColumns = GATED != 0 ? kWarpColumns / 2 : kWarpColumns;
const uint kResultValues = kColumns * ROWS;

// The slot-th expert that has pairs, or num_experts when there are fewer. All invocations of a subgroup call it.
uint find_active_expert(uint64_t offsets, uint num_experts, uint slot) {
  const uint kTogether = 8;  // subgroups' worth of offsets that are under way together
  uint seen = 0;
  for (uint base = 0; base < num_experts; base += kTogether * kSubgroup) {
    bool has_pairs[kTogether];
    [[unroll]] for (uint i = 0; i < kTogether; ++i) {
      const uint expert = base + i * kSubgroup + gl_SubgroupInvocationID;
      has_pairs[i] = expert < num_experts && load_i32(offsets, expert) != load_i32(offsets, expert + 1);
    }
    [[unroll]] for (uint i = 0; i < kTogether; ++i) {
      const uvec4 lanes = subgroupBallot(has_pairs[i]);
      const uint count = subgroupBallotBitCount(lanes);
      if (slot < seen + count) {
        const bool found = has_pairs[i] && subgroupBallotExclusiveBitCount(lanes) == slot - seen;
        return base + i * kSubgroup + subgroupBallotFindLSB(subgroupBallot(found));
      }
      seen += count;
    }
  }
  return num_experts;
}

// The stack's matrix `expert`.
WeightParams expert_weight(const WeightParams stack, uint expert) {
  WeightParams w = stack;
  w.codes += expert * stack.codes_stride;
  w.scale += expert * stack.scale_stride;
  w.global_scale += expert * stack.global_scale_stride;
  return w;
}

// Rows of x for pairs [first, first + ROWS) of `count`; past the last one it is repeated.
ActivationRows pair_rows(const MoeExpertsParams p, uint64_t pairs, uint first, uint count) {
  ActivationRows rows;
  rows.base = p.x;
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    rows.offset[r] = uint(uint(load_i32(pairs, min(first + r, count - 1))) / p.pairs_per_row * p.x_stride);
  }
  return rows;
}

void main() {
  const MoeExpertsParams p = params;
  const uint thread = thread_index();
  const uint warp = thread / kLanes;
  const uint expert = find_active_expert(p.expert_offsets, p.num_experts, gl_WorkGroupID.y);
  if (expert == p.num_experts) return;
  const WeightParams w = expert_weight(p.weight, expert);
  const uint begin = uint(load_i32(p.expert_offsets, expert));
  const uint count = uint(load_i32(p.expert_offsets, expert + 1)) - begin;
  const uint64_t pairs = p.expert_pairs + uint64_t(begin) * 4;
  const uint groups = kWarps / p.num_slices;
  const uint slice = warp % p.num_slices;
  const uint first_column = gl_WorkGroupID.x * groups * kColumns;
  WeightRows rows;
  [[unroll]] for (uint c = 0; c < kWarpColumns; ++c) {
    const uint n = min(first_column + warp / p.num_slices * kColumns + c % kColumns, p.out_features - 1);
    set_weight_row(rows, c, w, first_column, n + c / kColumns * p.out_features, p.in_features);
  }
  const uint group = thread / kResultValues;
  const uint value = thread % kResultValues;
  const uint column = first_column + group * kColumns + value / ROWS;
  uint buffer_index = 0;
  for (uint first = 0; first < count; first += ROWS, buffer_index ^= 1) {
    const ActivationRows x = pair_rows(p, pairs, first, count);
    float sums[kTileValues] = no_sums();
    if (ROWS > 1 && first + 1 < count) {
      add_slice(w, rows, x, p.in_features, slice, p.num_slices, p.x_is_bf16, ROWS, sums);
    } else {  // a pair that is left alone is computed alone
      add_slice(w, rows, x, p.in_features, slice, p.num_slices, p.x_is_bf16, 1, sums);
    }
    store_sums(buffer_index, sums);
    const uint row = first + value % ROWS;
    if (group >= groups || column >= p.out_features || row >= count) continue;
    float result = tile_value(buffer_index, group, value, p.num_slices) * outer_scale(w, column);
#if GATED
    const float up =
        tile_value(buffer_index, group, kResultValues + value, p.num_slices) * outer_scale(w, p.out_features + column);
    result = silu(result) * up;
#endif
    store_float(p.out_, uint64_t(load_i32(pairs, row)) * p.out_features + column, result, p.out_is_bf16);
  }
}
