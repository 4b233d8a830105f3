// Quantisation methods that this library does not read, told by their tensors. For the sources of this folder, not for callers.
#pragma once

#include <string>

#include "models/weight_map_catalog.h"

namespace foretoken {

/// Throws Unsupported that names the method and a tensor of it when the [n, k] weight of `base` is stored as AWQ, GPTQ,
/// pack-quantized or 8-bit integers, MXFP4, bitsandbytes, HQQ or MLX do. Weights that this library reads, or that are not there
/// at all, pass. MXFP4 and MXFP8 in tensors named like NVFP4 and FP8 are told by their scales: refuse_e8m0.
void refuse_foreign_method(const WeightCatalog& catalog, const std::string& base, int64_t n, int64_t k);

/// Throws Unsupported when `scale` holds bare exponents (E8M0, stored as such or as U8).
void refuse_e8m0(const WeightCatalog& catalog, size_t scale, const std::string& method);

}  // namespace foretoken
