#pragma once

#include "backends/gpu/kernel_lists.h"
#include "backends/gpu/quantize.inl"

namespace foretoken::gpu {

void add_quantize_kernels(KernelList& list) {
  list.push_back(weight_maker_entry("abs_max", abs_max, kQuantizeThreads));
  list.push_back(kernel_entry("abs_max_join", abs_max_join, kQuantizeThreads));
  list.push_back(weight_maker_entry("quantize_fp8_row", quantize_fp8_row, kQuantizeThreads));
  list.push_back(weight_maker_entry("quantize_fp8_block", quantize_fp8_block, kQuantizeThreads));
  list.push_back(weight_maker_entry("quantize_nvfp4", quantize_nvfp4, kQuantizeThreads));
  list.push_back(weight_maker_entry("dequantize", dequantize, kQuantizeThreads));
}

}  // namespace foretoken::gpu
