// MoeBlock as a sequence of its operators.
#pragma once

#include "backends/op_table.h"

namespace foretoken {

/// Adds to MoeBlock an implementation "parts": the best implementation in `table` of each of its operators. Add it last. The
/// linear layers share a workspace, the experts have their own.
void add_moe_block_parts(OpTable& table);

}  // namespace foretoken
