// What implementations of gated_attention share: how caches are read, and the splitting of a context among work groups.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "backends/gpu/attention_params.h"
#include "backends/kernel.h"
#include "backends/op_table.h"
#include "core/ops/gated_attention.h"

namespace foretoken::gpu {

/// How kernels read a cache: by its dtype.
[[nodiscard]] CacheFormat cache_format(const Tensor& cache);

/// Puts the splits of up to kAttentionRows rows on a list; `splits` says how many there are of a row.
using SplitLaunch = std::function<void(CommandList&, const GatedAttention&, const GatedAttentionParams&)>;

/// Scratch for the partial results of kAttentionRows rows, or fewer.
[[nodiscard]] size_t split_workspace_bytes(const GatedAttention& op);

/// The rows of a call, kAttentionRows at a time: `split`, then the merging of what it gave.
void attend_by_splits(CommandList& cmd, const GatedAttention& op, const SplitLaunch& split,
                      const Kernel<GatedAttentionParams>& combine);

}  // namespace foretoken::gpu
