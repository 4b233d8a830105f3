// The tile unit of AMX: its configuration, and what the compiler must be told about it.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/prefill_amx_params.h"
#include "backends/cpu/kernels/simd.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

/// GCC's tile instructions do not say which memory they read and write: nothing may move across them.
FORETOKEN_SIMD_INLINE void memory_fence_for_compiler() { __asm__ volatile("" ::: "memory"); }

/// Tile configuration: eight tiles of sixteen rows, released when it goes. Rows have 64 bytes; where `narrow_bytes` says less,
/// only those of the tiles 4 and 5 do, which is what a product takes on its left, and all others have so many.
class TileConfiguration {
 public:
  __attribute__((target("amx-tile"))) explicit TileConfiguration(size_t narrow_bytes = 64) {
    alignas(64) uint8_t bytes[64] = {};
    bytes[0] = 1;  // palette
    for (size_t tile = 0; tile < 8; ++tile) {
      bytes[16 + 2 * tile] = tile / 2 == 2 ? 64 : static_cast<uint8_t>(narrow_bytes);  // bytes of a row
      bytes[48 + tile] = kAmxTile;                                                     // rows
    }
    memory_fence_for_compiler();
    _tile_loadconfig(bytes);
  }
  __attribute__((target("amx-tile"))) ~TileConfiguration() { _tile_release(); }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;
};

// The tile instructions for templates; nothing moves across them.

template <int kTile>
FORETOKEN_SIMD_INLINE void tile_load(const void* from, size_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "n"(kTile) : "memory");
}
template <int kTile>
FORETOKEN_SIMD_INLINE void tile_store(void* to, size_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "n"(kTile) : "memory");
}
template <int kTile>
FORETOKEN_SIMD_INLINE void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "n"(kTile));
}
/// kInto += kLeft * kRight, of BF16.
template <int kInto, int kLeft, int kRight>
FORETOKEN_SIMD_INLINE void tile_multiply() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "n"(kInto), "n"(kLeft), "n"(kRight));
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
