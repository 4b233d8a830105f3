// Mixture of experts (core/ops/moe.h). Row-invariant: every sum comes from tile_sums, and the experts of a row are added in slot
// order.
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/linear_fp8.h"
#include "backends/cpu/kernels/linear_nvfp4.h"
#include "backends/cpu/kernels/moe_experts.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

/// An integer in the order of the floats: -0 equals +0, NaN is below everything.
int32_t order_key(float value) {
  if (value != value) return INT32_MIN;
  const float no_negative_zero = value + 0.0F;
  int32_t bits = 0;
  __builtin_memcpy(&bits, &no_negative_zero, sizeof(bits));
  return bits >= 0 ? bits : bits ^ INT32_MAX;
}

/// sum over e of exp(logits[e] - largest).
float softmax_sum(const float* logits, size_t num_experts, float largest) {
  F32x16 sum = F32x16::zero();
  const F32x16 shift = F32x16::broadcast(largest);
  size_t e = 0;
  for (; e + kLanes <= num_experts; e += kLanes) sum = sum + exp(F32x16::load(logits + e) - shift);
  if (e < num_experts) {
    float lanes[kLanes];
    F32x16::broadcast(-__builtin_inff()).store(lanes);
    __builtin_memcpy(lanes, logits + e, (num_experts - e) * sizeof(float));
    sum = sum + exp(F32x16::load(lanes) - shift);
  }
  return reduce_add(sum);
}

void moe_topk(const MoeTopkParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    const float* logits = pointer<const float>(p.logits) + row * p.logits_stride;
    int32_t* ids = pointer<int32_t>(p.topk_ids) + row * p.top_k;
    float* weights = pointer<float>(p.topk_weights) + row * p.top_k;
    // Each pick is the first of the largest among those after the pick before it, in the order (logit down, index up).
    int32_t last_key = INT32_MAX;
    int64_t last_id = -1;
    for (size_t s = 0; s < p.top_k; ++s) {
      int32_t best_key = INT32_MIN;
      int64_t best_id = -1;
      for (int64_t e = 0; e < p.num_experts; ++e) {
        const int32_t key = order_key(logits[e]);
        const bool is_after = key < last_key || (key == last_key && e > last_id);
        if (is_after && (best_id < 0 || key > best_key)) {
          best_key = key;
          best_id = e;
        }
      }
      ids[s] = static_cast<int32_t>(best_id);
      last_key = best_key;
      last_id = best_id;
    }
    const float sum = softmax_sum(logits, p.num_experts, logits[ids[0]]);
    float picked = 0.0F;
    for (size_t s = 0; s < p.top_k; ++s) {
      weights[s] = exp_one(logits[ids[s]] - logits[ids[0]]) / sum;
      picked += weights[s];
    }
    if (p.renormalise != 0) {
      for (size_t s = 0; s < p.top_k; ++s) weights[s] /= picked;
    }
  }
}

void moe_group(const MoeGroupParams& p, uint32_t begin, uint32_t end) {
  if (begin == end) return;
  const auto* ids = pointer<const int32_t>(p.topk_ids);
  auto* offsets = pointer<int32_t>(p.expert_offsets);
  auto* pairs = pointer<int32_t>(p.expert_pairs);
  for (size_t e = 0; e <= p.num_experts; ++e) offsets[e] = 0;
  for (size_t i = 0; i < p.num_pairs; ++i) ++offsets[ids[i] + 1];
  for (size_t e = 1; e <= p.num_experts; ++e) offsets[e] += offsets[e - 1];
  // Filling moves each offset to its expert's end, which is the next one's begin; then all shift by one.
  for (size_t i = 0; i < p.num_pairs; ++i) pairs[offsets[ids[i]]++] = static_cast<int32_t>(i);
  for (size_t e = p.num_experts; e > 0; --e) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

void moe_join(const MoeJoinParams& p, uint32_t begin, uint32_t end) {
  const size_t tiles = (p.hidden_size + kExpertJoinColumns - 1) / kExpertJoinColumns;
  for (size_t item = begin; item < end; ++item) {
    const size_t row = item / tiles;
    const size_t first = item % tiles * kExpertJoinColumns;
    const size_t last = smaller(first + kExpertJoinColumns, p.hidden_size);
    const float* products = pointer<const float>(p.products) + row * p.top_k * p.hidden_size;
    const float* weights = pointer<const float>(p.topk_weights) + row * p.top_k;
    float* out = pointer<float>(p.out) + row * p.out_stride;
    F32x16 shared_scale = F32x16::zero();
    const float* shared = nullptr;
    if (p.shared != 0) {
      shared = pointer<const float>(p.shared) + row * p.shared_stride;
      shared_scale = sigmoid(F32x16::broadcast(pointer<const float>(p.shared_gate)[row * p.shared_gate_stride]));
    }
    for (size_t h = first; h < last; h += kLanes) {
      const size_t count = smaller(kLanes, last - h);
      F32x16 sum = F32x16::zero();
      for (size_t s = 0; s < p.top_k; ++s) {
        sum = fma(F32x16::broadcast(weights[s]), F32x16::load_partial(products + s * p.hidden_size + h, count), sum);
      }
      if (shared != nullptr) sum = fma(shared_scale, F32x16::load_partial(shared + h, count), sum);
      sum.store_partial(out + h, count);
    }
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<MoeTopkParams, moe_topk>("moe_topk"),
    kernel_entry<MoeGroupParams, moe_group>("moe_group"),
    kernel_entry<MoeExpertsParams, moe_experts_up<F32Rows>>("moe_experts_up_f32"),
    kernel_entry<MoeExpertsParams, moe_experts_up<Bf16Rows>>("moe_experts_up_bf16"),
    kernel_entry<MoeExpertsParams, moe_experts_up<Fp8RowRows>>("moe_experts_up_fp8_row"),
    kernel_entry<MoeExpertsParams, moe_experts_up<Fp8BlockRows>>("moe_experts_up_fp8_block"),
    kernel_entry<MoeExpertsParams, moe_experts_down<F32Rows>>("moe_experts_down_f32"),
    kernel_entry<MoeExpertsParams, moe_experts_down<Bf16Rows>>("moe_experts_down_bf16"),
    kernel_entry<MoeExpertsParams, moe_experts_down<Fp8RowRows>>("moe_experts_down_fp8_row"),
    kernel_entry<MoeExpertsParams, moe_experts_down<Fp8BlockRows>>("moe_experts_down_fp8_block"),
    kernel_entry<MoeJoinParams, moe_join>("moe_join"),
};

#if defined(__AVX2__)
constexpr KernelEntry kNvfp4Entries[] = {
    kernel_entry<MoeExpertsParams, moe_experts_up<Nvfp4Rows>>("moe_experts_up_nvfp4"),
    kernel_entry<MoeExpertsParams, moe_experts_down<Nvfp4Rows>>("moe_experts_down_nvfp4"),
};
#endif

}  // namespace

void add_moe_kernels(std::vector<KernelEntry>& list) {
  append(list, kEntries);
#if defined(__AVX2__)
  append(list, kNvfp4Entries);
#endif
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
