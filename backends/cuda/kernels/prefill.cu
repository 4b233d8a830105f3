#include "backends/cuda/kernels/prefill.cuh"

#include "backends/cuda/kernels/kernels.h"

namespace foretoken::cuda {

void add_prefill_kernels(gpu::KernelList& list) {
  list.push_back(tile_entry<LargeTile, false>("prefill_linear_large"));
  list.push_back(tile_entry<SmallTile, false>("prefill_linear_small"));
  list.push_back(tile_entry<LargeTile, true>("prefill_silu_mul_large"));
  list.push_back(tile_entry<SmallTile, true>("prefill_silu_mul_small"));
  list.push_back(gpu::kernel_entry("prefill_round", prefill_round, kConvertThreads));
  list.push_back(gpu::kernel_entry("prefill_widen_fp8_row", prefill_widen<gpu::Fp8RowFormat>, kConvertThreads));
  list.push_back(gpu::kernel_entry("prefill_widen_fp8_block", prefill_widen<gpu::Fp8BlockFormat>, kConvertThreads));
  list.push_back(gpu::kernel_entry("prefill_widen_nvfp4", prefill_widen<gpu::Nvfp4Format>, kConvertThreads));
  list.push_back(gpu::kernel_entry("prefill_gate", prefill_gate, kConvertThreads));
}

}  // namespace foretoken::cuda
