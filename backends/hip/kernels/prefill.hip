#include "backends/hip/kernels/device.h"

#include "backends/hip/kernels/kernels.h"
#include "backends/hip/kernels/prefill.h"

namespace foretoken::hip {
namespace {

template <class Format, class Tile>
void add_tile(gpu::KernelList& list, const std::string& variant) {
  const auto add = [&](const std::string& name, void (*kernel)(LinearParams)) {
    list.push_back(gpu::kernel_entry(name + variant, kernel, kPrefillThreads));
    list.back().missing_instructions = missing_matrix_instructions;
  };
  add("prefill_linear_", prefill<Format, Tile, false>);
  add("prefill_silu_mul_", prefill<Format, Tile, true>);
}

template <class Format>
void add_format(gpu::KernelList& list, const std::string& format) {
  add_tile<Format, LargeTile>(list, format + "_large");
  add_tile<Format, SmallTile>(list, format + "_small");
}

}  // namespace

void add_prefill_kernels(gpu::KernelList& list) {
  add_format<gpu::Bf16Format>(list, "bf16");
  add_format<gpu::Fp8RowFormat>(list, "fp8_row");
  add_format<gpu::Fp8BlockFormat>(list, "fp8_block");
  add_format<gpu::Nvfp4Format>(list, "nvfp4");
}

}  // namespace foretoken::hip
