// What the implementations of the experts have in common: their operands as parameters, and the end of moe_experts_down.
#pragma once

#include <cstddef>
#include <span>

#include "backends/gpu/linear_params.h"
#include "backends/gpu/moe_params.h"
#include "backends/kernel.h"
#include "backends/op_table.h"
#include "core/ops/moe.h"

namespace foretoken::gpu {

/// Parameters of a kernel that computes gate and up, or down without the join (into `products`, [T, k, H] F32). They lack what
/// follows from the weight: `weight`, `num_experts` and `num_slices`.
[[nodiscard]] MoeExpertsParams experts_up_params(const MoeExpertsUp& op);
[[nodiscard]] MoeExpertsParams experts_down_params(const MoeExpertsDown& op, uint64_t products);

/// act as one row per pair, [T * k, I].
[[nodiscard]] Tensor pairs_of(const MoeExpertsDown& op);

/// Bytes of the products of the pairs, [T, k, H] F32, where they are joined by a kernel of their own.
[[nodiscard]] size_t products_bytes(const MoeExpertsDown& op);

/// No, with the reason, when only one of shared and shared_gate is there.
[[nodiscard]] Availability has_whole_shared(const MoeExpertsDown& op);

/// Puts moe_join on the list: out = the products of each row's slots, weighted and summed in order, and the shared expert.
void launch_join(CommandList& cmd, const MoeExpertsDown& op, uint64_t products, const Kernel<MoeJoinParams>& join,
                 std::span<const Access> accesses);

}  // namespace foretoken::gpu
