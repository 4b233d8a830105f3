#include "backends/cuda/kernels/abs_max.cuh"
#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/quantize.inl"

namespace foretoken::cuda {

void add_quantize_kernels(gpu::KernelList& list) {
  using namespace gpu;
  KernelEntry bulk = kernel_entry("abs_max_bulk", abs_max_bulk, kAbsMaxBulkThreads);
  bulk.large_group_memory = true;
  bulk.min_architecture = 90;
  list.push_back(bulk);
  list.push_back(weight_maker_entry("abs_max", abs_max, kQuantizeThreads));
  list.push_back(kernel_entry("abs_max_join", abs_max_join, kQuantizeThreads));
  list.push_back(weight_maker_entry("quantize_fp8_row", quantize_fp8_row, kQuantizeThreads));
  list.push_back(weight_maker_entry("quantize_fp8_block", quantize_fp8_block, kQuantizeThreads));
  list.push_back(weight_maker_entry("quantize_nvfp4", quantize_nvfp4, kQuantizeThreads));
  list.push_back(weight_maker_entry("dequantize", dequantize, kQuantizeThreads));
}

}  // namespace foretoken::cuda
