#include "backends/op_table.h"

#include <utility>

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/host/backend.h"
#include "backends/gpu/kernel_lists.h"
#include "backends/hip/hip_ops.h"
#include "backends/hip/kernels/kernels.h"

namespace foretoken::hip {

gpu::KernelList all_kernels() {
  gpu::KernelList list = gpu::common_kernels();
  add_prefill_kernels(list);
  return list;
}

OpTable make_op_table(const KernelModule& module, int /*device*/) {
  OpTable table;
  add_prefill_ops(table, module);  // before the exact ones: these take only what may be rounded to BF16
  return gpu::portable_op_table(module, std::move(table));
}

}  // namespace foretoken::hip
