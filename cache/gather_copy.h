// Copies between scattered pieces of memory and one contiguous range of the same bytes.
#pragma once

#include <span>

#include "backends/command_list.h"

namespace foretoken {

[[nodiscard]] size_t total_bytes(std::span<const BufferView> pieces);
/// Pieces one after the other -> `whole`. Throws InvalidArgument, with nothing copied, unless the sizes agree.
void gather(CommandList& cmd, std::span<const BufferView> pieces, const BufferView& whole);
/// `whole` -> pieces, likewise.
void scatter(CommandList& cmd, const BufferView& whole, std::span<const BufferView> pieces);

}  // namespace foretoken
