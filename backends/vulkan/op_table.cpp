#include "backends/op_table.h"

#include "backends/gpu/gpu_ops.h"
#include "backends/vulkan/vulkan_backend.h"

namespace foretoken::vulkan {

OpTable make_op_table(const KernelModule& module) { return gpu::portable_op_table(module); }

}  // namespace foretoken::vulkan
