// LinearGroup on devices, and for operands, without a kernel that takes all its weights: a launch per part.
#pragma once

#include "backends/op_table.h"

namespace foretoken {

/// Adds to LinearGroup an implementation "parts" that cuts a group into runs of neighbours: the longest that an implementation of
/// LinearGroup in `table` takes, else one projection, through the best implementation of Linear. Add it last. The parts share the
/// workspace, so where it is used they run one after another.
void add_linear_group_parts(OpTable& table);

}  // namespace foretoken
