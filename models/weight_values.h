// Values of stored weights that no kernel may meet. For the sources of this folder, not for callers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/weight_source.h"

namespace foretoken {

/// Throws FormatError that names the tensor and the element when one of `bytes`, which begin at byte `begin` of it, is a NaN code
/// of E4M3 (0x7f or 0xff).
void check_e4m3(const SourceTensor& tensor, uint64_t begin, std::span<const std::byte> bytes);

/// Throws FormatError that names the tensor and the element for a scale, F32 or BF16, that is not finite; with `divides` also for
/// one that is not positive or has no finite reciprocal.
void check_scales(const SourceTensor& tensor, uint64_t begin, std::span<const std::byte> bytes, bool divides);

}  // namespace foretoken
