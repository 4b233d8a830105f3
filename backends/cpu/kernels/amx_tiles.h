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

/// Tile configuration: eight tiles of sixteen rows of 64 bytes, released when it goes.
class TileConfiguration {
 public:
  __attribute__((target("amx-tile"))) TileConfiguration() {
    alignas(64) uint8_t bytes[64] = {};
    bytes[0] = 1;  // palette
    for (size_t tile = 0; tile < 8; ++tile) {
      bytes[16 + 2 * tile] = 64;    // bytes of a row
      bytes[48 + tile] = kAmxTile;  // rows
    }
    memory_fence_for_compiler();
    _tile_loadconfig(bytes);
  }
  __attribute__((target("amx-tile"))) ~TileConfiguration() { _tile_release(); }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;
};

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
