// Where the kernels for small weights end and those for large ones begin. The border depends on the weight alone, so that every
// operator over one weight is computed in one order of sums.
#pragma once

#include <cstddef>

#include "core/linear_weight.h"

namespace foretoken::cuda {

/// A weight from this size on, scales included, is streamed: below, a launch is too short to fill the rings.
inline constexpr size_t kStreamedBytes = size_t{8} << 20;

/// Whether a weight belongs to the streaming kernels.
[[nodiscard]] inline bool is_streamed(const LinearWeight& w) { return w.bytes() >= kStreamedBytes; }

}  // namespace foretoken::cuda
