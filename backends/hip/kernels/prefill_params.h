// How the kernels for prefill cut a result into tiles, one per work group. They take gpu::LinearParams.
#pragma once

#include <cstdint>

namespace foretoken::hip {

inline constexpr uint32_t kPrefillThreads = 256;

struct PrefillTile {
  uint32_t rows;
  uint32_t columns;
};
/// Large ones where there are enough of them for the device.
inline constexpr PrefillTile kLargePrefillTile{.rows = 128, .columns = 128};
inline constexpr PrefillTile kSmallPrefillTile{.rows = 64, .columns = 64};

}  // namespace foretoken::hip
