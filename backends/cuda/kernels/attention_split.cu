#include "backends/cuda/kernels/attention_split.cuh"

#include <string>

#include "backends/cuda/kernels/kernels.h"

namespace foretoken::cuda {
namespace {

template <uint32_t kDim, uint32_t kTiles>
void add_split(gpu::KernelList& list) {
  const std::string name = attention_split_name(kDim, kTiles);
  list.push_back(gpu::kernel_entry(name, attention_split<kDim, kTiles>, kSplitThreads));
  list.back().large_group_memory = true;
}

template <uint32_t kDim>
void add_splits(gpu::KernelList& list) {
  add_split<kDim, 1>(list);
  add_split<kDim, 2>(list);
}

}  // namespace

void add_attention_split_kernels(gpu::KernelList& list) {
  add_splits<64>(list);
  add_splits<128>(list);
  add_splits<256>(list);
}

}  // namespace foretoken::cuda
