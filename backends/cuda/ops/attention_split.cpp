// gated_attention on tensor cores for few rows.
#include <algorithm>
#include <array>
#include <string>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/attention_split_params.h"
#include "backends/gpu/ops/attention.h"
#include "backends/gpu/ops/operands.h"

namespace foretoken::cuda {
namespace {

using gpu::extent;
using gpu::GatedAttentionParams;

/// The kernels for one size of heads: for up to 16 queries of a key head, and for more.
struct SplitKernels {
  uint32_t head_dim;
  std::array<Kernel<GatedAttentionParams>, 2> by_tiles;
  std::array<uint32_t, 2> group_memory;
};

template <uint32_t kDim>
SplitKernels kernels_for(const KernelModule& module) {
  return {.head_dim = kDim,
          .by_tiles = {module.resolve<GatedAttentionParams>(attention_split_name(kDim, 1)),
                       module.resolve<GatedAttentionParams>(attention_split_name(kDim, 2))},
          .group_memory = {sizeof(SplitMemory<kDim, 1>), sizeof(SplitMemory<kDim, 2>)}};
}

using AllKernels = std::array<SplitKernels, 3>;

const SplitKernels* find(const AllKernels& kernels, uint32_t head_dim) {
  const auto found = std::ranges::find(kernels, head_dim, &SplitKernels::head_dim);
  return found == kernels.end() ? nullptr : &*found;
}

bool aligned(const Tensor& tensor, uint64_t bytes) {
  return tensor.address() % bytes == 0 &&
         static_cast<uint64_t>(tensor.row_stride()) * dtype_bytes(tensor.dtype(), 1) % bytes == 0;
}

Availability accepts(const AllKernels& kernels, const GatedAttention& op) {
  if (op.q.dtype() != DType::kBF16) return Availability::no("queries in BF16");
  if (op.k_cache.dtype() != op.v_cache.dtype() || op.k_cache.dtype() == DType::kF32) {
    return Availability::no("caches of BF16 or E4M3");
  }
  if (find(kernels, extent(op.q, 2)) == nullptr) return Availability::no("heads of 64, 128 or 256 elements");
  constexpr uint64_t kVector = 16;
  if (!aligned(op.q, kVector) || !aligned(op.k_cache, kVector) || !aligned(op.v_cache, kVector)) {
    return Availability::no("queries and caches at multiples of 16 bytes");
  }
  return Availability::yes();
}

}  // namespace

void add_attention_split_ops(OpTable& table, const KernelModule& module) {
  const AllKernels kernels{kernels_for<64>(module), kernels_for<128>(module), kernels_for<256>(module)};
  const gpu::SplitLaunch split = [kernels](CommandList& cmd, const GatedAttention& op, const GatedAttentionParams& params) {
    const SplitKernels& chosen = *find(kernels, params.head_dim);
    const uint32_t queries = std::min(extent(op.q, 0), gpu::kAttentionRows) * (params.num_query_heads / params.num_key_heads);
    const size_t wide = queries > 16 ? 1 : 0;
    const Grid grid{
        .x = params.num_splits, .y = params.num_key_heads, .z = params.num_sequences, .group_memory = chosen.group_memory[wide]};
    chosen.by_tiles[wide](cmd, grid, params, accesses_of(op));
  };
  table.add<GatedAttention>(
      "split",
      [split, combine = module.resolve<GatedAttentionParams>("gated_attention_combine")](
          CommandList& cmd, const GatedAttention& op) { gpu::attend_by_splits(cmd, op, split, combine); },
      [kernels](const GatedAttention& op) { return accepts(kernels, op); }, gpu::split_workspace_bytes);
}

}  // namespace foretoken::cuda
