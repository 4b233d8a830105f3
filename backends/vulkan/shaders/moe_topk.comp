// The choice of experts of moe_route (core/ops/moe.h): a logical warp per row; each pick is the best of those after the pick
// before it. NaN counts as -infinity.
#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/moe_params.glsl"

PARAMS(MoeTopkParams);

const uint kLaneExperts = kMaxExperts / kLanes;

// Whether (value, index) comes after `last` in the order of picks: smaller values later, equal ones by index.
bool is_after(float value, int index, Candidate last) {
  if (last.index < 0) return true;
  return value < last.value || (value == last.value && index > last.index);
}

void main() {
  const MoeTopkParams p = params;
  const uint warp_row = gl_WorkGroupID.x * (kWarps) + thread_index() / kLanes;
  const uint row = min(warp_row, p.num_rows - 1);  // all lanes take part in the reductions
  const uint lane = lane_index();
  const bool stores = warp_row < p.num_rows && lane == 0;
  const uint64_t picks = uint64_t(row) * p.top_k;
  float values[kLaneExperts];
  [[unroll]] for (uint i = 0; i < kLaneExperts; ++i) {
    const uint e = lane + i * kLanes;
    const float logit = e < p.num_experts ? load_f32(p.logits, row * p.logits_stride + e) : -kInfinity;
    values[i] = is_nan(logit) ? -kInfinity : logit;
  }
  Candidate last = Candidate(0.0, -1);
  float largest = 0.0;
  precise float picked = 0.0;
  for (uint s = 0; s < p.top_k; ++s) {
    Candidate best = Candidate(0.0, -1);
    [[unroll]] for (uint i = 0; i < kLaneExperts; ++i) {
      const int e = int(lane + i * kLanes);
      if (e < int(p.num_experts) && is_after(values[i], e, last)) best = better(best, Candidate(values[i], e));
    }
    last = lane_best(best);
    if (s == 0) largest = last.value;
    const float weight = exponential(last.value - largest);
    picked += weight;
    if (stores) {
      store_i32(p.topk_ids, picks + s, last.index);
      store_f32(p.topk_weights, picks + s, weight);
    }
  }
  precise float sum = 0.0;
  [[unroll]] for (uint i = 0; i < kLaneExperts; ++i) {
    if (lane + i * kLanes < p.num_experts) sum += exponential(values[i] - largest);
  }
  sum = lane_sum(sum);
  if (!stores) return;
  const float total = p.renormalise != 0 ? picked : sum;
  for (uint s = 0; s < p.top_k; ++s) {
    store_f32(p.topk_weights, picks + s, load_f32(p.topk_weights, picks + s) / total);
  }
}
