// Takes the place of backends/cpu/kernels/amx_tiles.h in a second build of the AMX kernels: tiles are arrays, so that the kernels
// can be tested on any CPU with AVX-512.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/prefill_amx_params.h"
#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

struct Tile {
  uint8_t row[16][64];
};

inline Tile* tiles() {
  thread_local Tile all[8];
  return all;
}

/// Of all tiles but 4 and 5.
inline size_t& narrow_bytes_of_thread() {
  thread_local size_t bytes = 64;
  return bytes;
}

inline size_t row_bytes(int tile) { return tile / 2 == 2 ? 64 : narrow_bytes_of_thread(); }

inline void load_tile(int tile, const void* from, size_t stride) {
  for (size_t r = 0; r < 16; ++r) {
    std::memcpy(tiles()[tile].row[r], static_cast<const uint8_t*>(from) + r * stride, row_bytes(tile));
  }
}

inline void store_tile(int tile, void* to, size_t stride) {
  for (size_t r = 0; r < 16; ++r) {
    std::memcpy(static_cast<uint8_t*>(to) + r * stride, tiles()[tile].row[r], row_bytes(tile));
  }
}

inline void multiply_tiles_bf16(int into, int a, int b) {
  const auto value = [](const Tile& tile, size_t row, size_t column) {
    uint16_t bits;
    std::memcpy(&bits, tile.row[row] + 2 * column, sizeof(bits));
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  };
  for (size_t m = 0; m < 16; ++m) {
    float sums[16];
    std::memcpy(sums, tiles()[into].row[m], sizeof(sums));
    for (size_t k = 0; k < 32; ++k) {
      for (size_t n = 0; n < 16; ++n) sums[n] += value(tiles()[a], m, k) * value(tiles()[b], k / 2, 2 * n + k % 2);
    }
    std::memcpy(tiles()[into].row[m], sums, sizeof(sums));
  }
}

inline void memory_fence_for_compiler() {}

/// Tiles hold garbage until they are loaded or zeroed, as those of a thread may.
class TileConfiguration {
 public:
  explicit TileConfiguration(size_t narrow_bytes = 64) {
    narrow_bytes_of_thread() = narrow_bytes;
    std::memset(tiles(), 0xff, 8 * sizeof(Tile));
  }
};

template <int kTile>
void tile_load(const void* from, size_t stride) {
  load_tile(kTile, from, stride);
}
template <int kTile>
void tile_store(void* to, size_t stride) {
  store_tile(kTile, to, stride);
}
template <int kTile>
void tile_zero() {
  std::memset(tiles() + kTile, 0, sizeof(Tile));
}
template <int kInto, int kLeft, int kRight>
void tile_multiply() {
  multiply_tiles_bf16(kInto, kLeft, kRight);
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_zero(tile) std::memset(tiles() + (tile), 0, sizeof(Tile))
#define _tile_loadd(tile, from, stride) load_tile(tile, from, stride)
#define _tile_stored(tile, to, stride) store_tile(tile, to, stride)
#define _tile_dpbf16ps(into, a, b) multiply_tiles_bf16(into, a, b)
