// Linear weights in another format, made on the device.
#pragma once

#include "backends/backend.h"
#include "core/linear_weight.h"

namespace foretoken {

/// A weight and the memory that its views point into.
struct ConvertedWeight {
  LinearWeight weight;
  Buffer memory;
};

/// Bytes of a weight of `shape` [N, K] or [E, N, K] in `format`, scales and alignment included.
[[nodiscard]] size_t converted_bytes(WeightFormat format, const Shape& shape, int64_t row_groups = 1);

/// Copies `source`, a matrix or a stack in any format that the device stores, into `format`, by the rules of core/ops/quantize.h;
/// FP8 scales are F32. Experts are converted one by one. `row_groups` equal groups of rows get scales as if they were matrices of
/// their own: 2 for the gate and up rows of stacked experts. `column_weight` [K] F32 on the device says how much the error of
/// each column counts, the same for all matrices of a stack: NVFP4 scales are chosen by it, other formats take no notice. Work
/// runs on `stream`, which is synchronised at the end; scratch memory is freed. The same format again is a copy. Throws
/// Unsupported where the device has no kernels for either format, with its reason; InvalidArgument for NVFP4 when K does not
/// divide by 16 and for a `column_weight` of another shape or dtype; OutOfMemory.
[[nodiscard]] ConvertedWeight convert_weight(GpuBackend& backend, Stream& stream, const LinearWeight& source, WeightFormat format,
                                             int64_t row_groups = 1, const Tensor& column_weight = {});

}  // namespace foretoken
