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
/// The formats that kernels on `architecture` read: NVFP4 from gfx90a and gfx10 on.
[[nodiscard]] std::vector<WeightFormatSupport> amd_weight_formats(uint32_t architecture);

}  // namespace foretoken::hip
