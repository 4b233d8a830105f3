// Architectures of AMD GPUs as numbers that can be compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/capabilities.h"

namespace foretoken::hip {

/// 0x90a for "gfx90a:sramecc+:xnack-"; 0 for a name of another kind.
[[nodiscard]] uint32_t amd_architecture(std::string_view name);
/// "gfx90a" for 0x90a.
[[nodiscard]] std::string amd_name(uint32_t architecture);
/// Why `architecture` has no instructions that multiply BF16 matrices; empty: it has them, MFMA on gfx90a, gfx94x and gfx950,
/// WMMA on gfx11, gfx1200 and gfx1201.
[[nodiscard]] std::string amd_missing_matrix_instructions(uint32_t architecture);
/// The formats that kernels on `architecture` read: NVFP4 from gfx90a and gfx10 on.
[[nodiscard]] std::vector<WeightFormatSupport> amd_weight_formats(uint32_t architecture);

}  // namespace foretoken::hip
