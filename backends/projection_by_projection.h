// LinearGroup on devices, and for operands, without a kernel that takes several weights: a launch per projection.
#pragma once

#include "backends/op_table.h"

namespace foretoken {

/// Adds to LinearGroup an implementation "projection by projection" that puts each projection through the best implementation of
/// Linear in `table`. Add it last. The projections share the workspace, so where it is used they run one after another.
void add_projection_by_projection(OpTable& table);

}  // namespace foretoken
