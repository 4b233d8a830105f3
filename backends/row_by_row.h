// Linear operators over several rows on devices whose kernels take one: a launch per row.
#pragma once

#include "backends/op_table.h"

namespace foretoken {

/// Adds to Linear, LinearSiluMul and LinearArgmax an implementation "row by row" that takes what the implementations in `table`
/// take one row of, and puts each row through the best of those. Add it last: it reads the weight once per row. Row t has the
/// bits of that row alone, since it is launched alone.
void add_row_by_row(OpTable& table);

}  // namespace foretoken
