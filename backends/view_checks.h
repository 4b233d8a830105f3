// Checks of views that every backend makes before it touches memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/tensor.h"

namespace foretoken {

/// Throws InvalidArgument when `view` reaches past its buffer, or is null with bytes; `what` names it ("copy: source").
void check_view(const BufferView& view, std::string_view what);
/// Throws InvalidArgument, with both sizes, when they differ; `what` names the call.
void check_equal_sizes(size_t source_bytes, size_t destination_bytes, std::string_view what);
/// Throws InvalidArgument unless both views are good, equally long and share no byte: what CommandList::copy demands.
void check_copy(const BufferView& source, const BufferView& destination);
/// Throws InvalidArgument unless the view is good and a multiple of 4 bytes long: what CommandList::fill demands.
void check_fill(const BufferView& destination);
/// The address of an operator's `workspace`, which may be absent when `bytes` is 0. Throws InvalidArgument, with the operator
/// `op` and both sizes, when it is smaller than `bytes`.
[[nodiscard]] uint64_t checked_workspace(std::string_view op, const Tensor& workspace, size_t bytes);

}  // namespace foretoken
