// moe_experts_down for a few rows in one launch: a work group has some columns of all experts, so that it can add up the slots of
// a row itself.
#pragma once

#include "backends/cuda/kernels/moe_experts.cuh"

namespace foretoken::cuda {
namespace {

/// Units of one expert that a warp has under way.
template <class Weights>
__host__ __device__ constexpr uint32_t down_depth() {
  return 512 / unit_elements<Weights>();
}

/// Where moe_down keeps what in group memory: rows of x among the sorted pairs, products and weights by pair, the sorted pairs,
/// the experts that have pairs.
struct DownMemory {
  float* products;  // [P][kExpertTileRows]
  float* weights;   // [P]
  uint32_t* pairs;  // [P]
  ActiveExpert* experts;

  __device__ __forceinline__ DownMemory(uint4* memory, uint32_t num_pairs, uint32_t x_row_bytes) {
    products = reinterpret_cast<float*>(memory + num_pairs * (x_row_bytes / 16));
    weights = products + num_pairs * kExpertTileRows;
    pairs = reinterpret_cast<uint32_t*>(weights + num_pairs);
    experts = reinterpret_cast<ActiveExpert*>(pairs + num_pairs);
  }
};

/// One expert's part in a warp's work.
template <class Weights>
struct DownExpert {
  uint32_t first;
  uint32_t count;
  WeightRow<Weights> row;
  float2 scale;  // of the lane's two columns
};

/// Nothing to load without `exists`.
template <class Weights>
__device__ __forceinline__ DownExpert<Weights> down_expert(const MoeDownParams& p, const ActiveExpert& active, bool exists) {
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t column = blockIdx.x * kExpertTileRows;
  const auto row_of = [&](uint32_t i) { return gpu::smaller(column + i, p.out_features - 1); };
  const WeightParams w = expert_weight(p.weight, active.expert);
  DownExpert<Weights> expert;
  expert.first = active.first;
  expert.count = exists ? active.count : 0;
  expert.row = WeightRow<Weights>(w, {row_of(lane / 4), row_of(lane % 4 * 2)}, p.in_features);
  if (!exists) expert.row.bytes = 0;
  const auto scale_of = [&](uint32_t i) { return Weights::Format::outer_scale(w, w.scale, w.global_scale, row_of(i)); };
  expert.scale = make_float2(scale_of(lane % 4 * 2), scale_of(lane % 4 * 2 + 1));
  return expert;
}

/// Starts the copies of an expert's rows of x, as a group.
template <class Weights>
__device__ __forceinline__ void copy_x(const MoeDownParams& p, uint32_t x, const uint32_t* pairs,
                                       const DownExpert<Weights>& expert) {
#pragma unroll 1
  for (uint32_t i = expert.first; i < expert.first + expert.count; ++i) {
    copy_x_row<Weights>(x + i * p.x_row_bytes, p.x + uint64_t{pairs[i]} * p.in_features * 2, p.in_features, threadIdx.x % kLanes,
                        kLanes);
  }
  end_copy_group();
}

/// The products of the experts that fall to this warp, each over the whole row in one chain of sums. `x`: rows of x.
template <class Weights>
__device__ __forceinline__ void multiply_experts(const MoeDownParams& p, uint32_t x, float* products, const uint32_t* pairs,
                                                 const ActiveExpert* experts, uint32_t num_active) {
  constexpr uint32_t kDepth = down_depth<Weights>();
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t units = num_units<Weights>(p.in_features);
  const uint64_t policy = evict_first_policy();
  uint32_t i = threadIdx.x / kLanes;
  if (i >= num_active) return;
  DownExpert<Weights> at = down_expert<Weights>(p, experts[i], true);
  WeightUnit<Weights> ring[kDepth];
#pragma unroll
  for (uint32_t j = 0; j < kDepth; ++j) ring[j].load(p.weight, at.row, j, j < units, policy);
  copy_x(p, x, pairs, at);
#pragma unroll 1
  for (; i < num_active; i += kExpertWarps) {
    const bool more = i + kExpertWarps < num_active;
    const DownExpert<Weights> next = down_expert<Weights>(p, experts[more ? i + kExpertWarps : i], more);
    copy_x(p, x, pairs, next);
    wait_for_copy_groups<1>();
    __syncwarp();
    const uint32_t rows = x + (at.first + gpu::smaller(lane / 4, at.count - 1)) * p.x_row_bytes + lane % 4 * 16;
    float sums[4] = {};
    WeightRow<Weights> row = at.row;
#pragma unroll 1
    for (uint32_t base = 0; base < units; base += kDepth) {
      const bool is_last = base + kDepth >= units;
      if (is_last) row = next.row;
      const uint32_t following = is_last ? 0 : base + kDepth;
      const uint32_t end = is_last && !more ? 0 : units;
#pragma unroll
      for (uint32_t j = 0; j < kDepth; ++j) {
        if (base + j < units) add_unit(ring[j], shared_unit<Weights, false>(rows, rows, base + j), sums);
        ring[j].load(p.weight, row, following + j, following + j < end, policy);
      }
    }
    if (lane / 4 < at.count) {
      const float factor = Weights::kSumFactor;
      float* product = products + pairs[at.first + lane / 4] * kExpertTileRows + lane % 4 * 2;
      *reinterpret_cast<float2*>(product) = make_float2(sums[0] * (at.scale.x * factor), sums[1] * (at.scale.y * factor));
    }
    at = next;
  }
}

/// For at most kDownRows rows of different experts each.
template <class Weights>
__global__ void __launch_bounds__(kExpertThreads, 2) moe_down(const __grid_constant__ MoeDownParams p) {
  extern __shared__ uint4 group_memory[];
  const uint32_t num_pairs = p.num_rows * p.top_k;
  const DownMemory memory(group_memory, num_pairs, p.x_row_bytes);
  gpu::begin_kernel();
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < num_pairs; i += kExpertThreads) {
    memory.pairs[i] = pointer<const uint32_t>(p.expert_pairs)[i];
    memory.weights[i] = pointer<const float>(p.topk_weights)[i];
  }
  // What the epilogue needs of elsewhere is on its way while the experts are multiplied.
  const uint32_t row = threadIdx.x / kExpertTileRows;
  const uint32_t column = blockIdx.x * kExpertTileRows + threadIdx.x % kExpertTileRows;
  const bool exists = row < p.num_rows && column < p.out_features;
  const bool has_shared = exists && p.shared != 0;
  const float gate = has_shared ? pointer<const float>(p.shared_gate)[row * p.shared_gate_stride] : 0.0F;
  const float shared = has_shared ? gpu::load_float(p.shared, row * p.shared_stride + column, p.shared_is_bf16 != 0) : 0.0F;
  const uint32_t num_active = for_each_active_expert(p.expert_offsets, p.num_experts,
                                                     [&](uint32_t i, const ActiveExpert& active) { memory.experts[i] = active; });
  multiply_experts<Weights>(p, shared_address(group_memory), memory.products, memory.pairs, memory.experts, num_active);
  __syncthreads();

  if (!exists) return;
  float sum = 0.0F;
#pragma unroll 4
  for (uint32_t pair = row * p.top_k; pair < (row + 1) * p.top_k; ++pair) {
    sum = fmaf(memory.weights[pair], memory.products[pair * kExpertTileRows + threadIdx.x % kExpertTileRows], sum);
  }
  if (has_shared) sum = fmaf(gpu::sigmoid(gate), shared, sum);
  gpu::store_float(p.out, row * p.out_stride + column, sum, p.out_is_bf16 != 0);
}

}  // namespace

/// `format` names the format in kernel names: "bf16".
template <class Weights>
void add_moe_kernels(gpu::KernelList& list, const std::string& format) {
  const auto add = [&list](const std::string& name, auto kernel) {
    list.push_back(gpu::kernel_entry(name, kernel, kExpertThreads));
    list.back().large_group_memory = true;
  };
  add("moe_up_" + format + "_x8", moe_tile<Weights, true, false>);
  add("moe_up_" + format + "_x16", moe_tile<Weights, true, true>);
  add("moe_products_" + format, moe_tile<Weights, false, true>);
  add("moe_down_" + format, moe_down<Weights>);
}

}  // namespace foretoken::cuda
