// Some rows of a matrix, as a matrix of their own.
#pragma once

#include <cstdint>
#include <span>

#include "models/weight_converter.h"

namespace foretoken {

/// Copies rows `rows` [R], rising, of `source` [N, K] on the device. The result has the source's format, or BF16 where scales do
/// not belong to single rows (FP8 blocks, NVFP4 in several groups of rows). Work runs on `stream`, which is synchronised at the
/// end. Throws what convert_weight throws; InvalidArgument for rows that the source does not have.
[[nodiscard]] ConvertedWeight copy_rows(GpuBackend& backend, Stream& stream, const LinearWeight& source,
                                        std::span<const int32_t> rows);

}  // namespace foretoken
