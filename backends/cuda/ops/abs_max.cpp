// abs_max over rings of bulk copies: what the bandwidth of the memory is measured with.
#include <algorithm>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/abs_max_params.h"
#include "backends/gpu/ops/operands.h"
#include "backends/gpu/quantize_params.h"
#include "core/ops/quantize.h"

namespace foretoken::cuda {
namespace {

constexpr size_t kAlignment = 16;       // of bulk copies, in bytes
constexpr uint32_t kKeptMemory = 4096;  // of group memory, for what the kernel declares itself
constexpr uint32_t kMaxGroups = 1024;   // partial results
constexpr size_t kWorkspaceBytes = kMaxGroups * sizeof(uint32_t);

uint32_t num_stages(const Capabilities& device) {
  const uint32_t chunks = (device.max_group_memory - kKeptMemory) / kAbsMaxBulkChunk;
  return std::clamp(chunks / kAbsMaxBulkWarps, 1U, kAbsMaxBulkStages);
}

Availability accepts(const Kernel<AbsMaxBulkParams>& kernel, const Tensor& x) {
  if (!kernel) return Availability::no(kernel.absent_reason());
  if (!x.is_contiguous()) return Availability::no("rows without gaps between them");
  if (x.address() % kAlignment != 0 || x.bytes() % kAlignment != 0) {
    return Availability::no("a tensor that begins and ends at multiples of 16 bytes");
  }
  return Availability::yes();
}

void launch(CommandList& cmd, const AbsMax& op, const Kernel<AbsMaxBulkParams>& bulk, const Kernel<gpu::AbsMaxJoinParams>& join) {
  const Capabilities& device = cmd.capabilities();
  const uint64_t partial = checked_workspace("abs_max", op.workspace, kWorkspaceBytes);
  const uint64_t bytes = op.x.bytes();
  const uint64_t wanted = gpu::ceil_div(bytes, uint64_t{kAbsMaxBulkWarps} * kAbsMaxBulkChunk);
  const auto groups = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, std::min(device.num_compute_units, kMaxGroups)));
  const AbsMaxBulkParams params{.x = op.x.address(),
                                .num_bytes = bytes,
                                .partial = partial,
                                .num_stages = num_stages(device),
                                .is_bf16 = gpu::is_bf16(op.x)};
  const uint32_t group_memory = kAbsMaxBulkWarps * params.num_stages * kAbsMaxBulkChunk;
  bulk(cmd, Grid{.x = groups, .group_memory = group_memory}, params, accesses_of(op));
  join(cmd, Grid{1}, {.partial = partial, .amax = op.amax.address(), .num_partial = groups}, accesses_of(op));
}

}  // namespace

void add_abs_max_ops(OpTable& table, const KernelModule& module) {
  table.add<AbsMax>(
      "bulk",
      [bulk = module.resolve_optional<AbsMaxBulkParams>("abs_max_bulk"),
       join = module.resolve<gpu::AbsMaxJoinParams>("abs_max_join")](CommandList& cmd, const AbsMax& op) {
        launch(cmd, op, bulk, join);
      },
      [bulk = module.resolve_optional<AbsMaxBulkParams>("abs_max_bulk")](const AbsMax& op) { return accepts(bulk, op.x); },
      [](const AbsMax&) { return kWorkspaceBytes; });
}

}  // namespace foretoken::cuda
