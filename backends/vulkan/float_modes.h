// What shaders demand of float32 arithmetic (device.glsl), as far as a device can promise it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foretoken::vulkan {

/// Which modes a device has.
struct FloatModes {
  bool keeps_subnormals = false;  // DenormPreserve
  bool keeps_nan = false;         // SignedZeroInfNanPreserve
};

/// The shader without the modes that are not in `modes`: such a device does as it likes there. Code that is no sound SPIR-V is
/// returned as it is.
[[nodiscard]] std::vector<uint32_t> with_float_modes(std::span<const uint32_t> code, FloatModes modes);

}  // namespace foretoken::vulkan
