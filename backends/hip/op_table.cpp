#include "backends/op_table.h"

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/host/backend.h"
#include "backends/gpu/kernel_lists.h"

namespace foretoken::hip {

gpu::KernelList all_kernels() { return gpu::common_kernels(); }

OpTable make_op_table(const KernelModule& module, int /*device*/) { return gpu::portable_op_table(module); }

}  // namespace foretoken::hip
