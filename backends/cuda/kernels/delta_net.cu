#include "backends/cuda/kernels/device.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/gpu/delta_net.inl"

namespace foretoken::cuda {

void add_delta_net_kernels(gpu::KernelList& list) {
  using namespace gpu;
  list.push_back(kernel_entry("causal_conv1d_silu", causal_conv1d_silu, kConvThreads));
  list.push_back(kernel_entry("gated_delta_rule_dk128", gated_delta_rule<128 / kStateWarps>, kStateThreads));
  list.push_back(kernel_entry("gated_delta_rule_dk256", gated_delta_rule<256 / kStateWarps>, kStateThreads));
  list.push_back(kernel_entry("recurrent_commit", recurrent_commit, kStateThreads));
}

}  // namespace foretoken::cuda
