// Quantised checkpoints: those that have golden files, and others.
#pragma once

#include <array>
#include <string>

#include "backends/backend.h"

namespace foretoken::test {

inline constexpr std::array<const char*, 4> kQuantizedCheckpoints{"tiny-dense-fp8", "tiny-dense-nvfp4", "tiny-moe-fp8",
                                                                  "tiny-next-fp8"};
/// Experts in the other formats, with an LM head like them.
inline constexpr std::array<const char*, 2> kOtherQuantizedCheckpoints{"tiny-moe-fp8-row", "tiny-moe-nvfp4"};
/// The prompts of the golden files.
inline constexpr std::array<int64_t, 13> kQuantizedPrompts{0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 28, 31};

/// A folder with the checkpoint, for as long as the process lives: bundled, or made from a bundled one by the quantiser.
[[nodiscard]] std::string quantized_checkpoint(const std::string& name);

/// Whether this device has kernels for the checkpoint's format.
[[nodiscard]] Availability usable_on(const GpuBackend& backend, const std::string& name);

/// Name of a test instance: "TinyDenseFp8".
[[nodiscard]] std::string instance_name(const std::string& checkpoint);

}  // namespace foretoken::test
