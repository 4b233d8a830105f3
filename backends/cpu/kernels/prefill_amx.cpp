// Prefill on AMX: out^T = W x^T with the weights as the tile operand that is read row by row, where the checkpoint has them, and
// the activations, few and packed once, as the other. Two by two tiles of results are accumulated over all of K, then transposed
// on their way out. The order of every sum depends on K alone.
#include "backends/cpu/kernels/prefill_amx.h"

#include "backends/cpu/kernels/amx_tiles.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/linear_tile.h"
#include "backends/cpu/kernels/prefill_amx_params.h"
#include "backends/cpu/kernels/transpose.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

namespace {

constexpr size_t kTileBytes = kAmxTile * kAmxDepth * sizeof(uint16_t);
constexpr size_t kPair = 2;  // tiles of results in each direction
constexpr size_t kLineBytes = 64;

/// One product of two by two tiles: 32 rows of W and 32 rows of x.
struct TileProduct {
  const uint16_t* w;       // sixteen rows
  const uint16_t* w_next;  // sixteen more
  const uint8_t* x;        // a packed block
  const uint8_t* x_next;   // the next one
  size_t in_features;
  const char* prefetch;  // weights that are wanted later
  size_t prefetch_lines;
};

/// sums[n][t]
__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles(const TileProduct& p, float* sums) {
  const size_t w_stride = p.in_features * sizeof(uint16_t);
  constexpr size_t kSumStride = kPair * kAmxTile * sizeof(float);
  const uint8_t* x = p.x;
  const uint8_t* x_next = p.x_next;
  const char* prefetch = p.prefetch;
  memory_fence_for_compiler();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (size_t k = 0; k < p.in_features; k += kAmxDepth) {
    for (size_t line = 0; line < p.prefetch_lines; ++line, prefetch += kLineBytes) _mm_prefetch(prefetch, _MM_HINT_T1);
    _tile_loadd(4, p.w + k, w_stride);
    _tile_loadd(6, x, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, x_next, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, p.w_next + k, w_stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    x += kTileBytes;
    x_next += kTileBytes;
  }
  _tile_stored(0, sums, kSumStride);
  _tile_stored(1, sums + kAmxTile, kSumStride);
  _tile_stored(2, sums + kAmxTile * kPair * kAmxTile, kSumStride);
  _tile_stored(3, sums + kAmxTile * kPair * kAmxTile + kAmxTile, kSumStride);
  memory_fence_for_compiler();
}

void amx_pack(const AmxPackParams& p, uint32_t begin, uint32_t end) {
  const size_t depth_blocks = p.in_features / kAmxDepth;
  for (size_t block = begin; block < end; ++block) {
    uint8_t* packed = pointer<uint8_t>(p.packed) + block * depth_blocks * kTileBytes;
    for (size_t k = 0; k < p.in_features; k += kAmxDepth, packed += kTileBytes) {
      __m512 tile[kLanes];
      for (size_t r = 0; r < kAmxTile; ++r) {
        const size_t row = block * kAmxTile + r;
        tile[r] = _mm512_setzero_ps();
        if (row >= p.num_rows) continue;
        const float* x = pointer<const float>(p.x) + row * p.x_stride + k;
        alignas(64) uint16_t rounded[kAmxDepth];
        store_bf16_or_nan(F32x16::load(x), rounded);
        store_bf16_or_nan(F32x16::load(x + kLanes), rounded + kLanes);
        tile[r] = _mm512_load_ps(rounded);
      }
      transpose(tile);
      for (size_t pair = 0; pair < kAmxTile; ++pair) _mm512_storeu_ps(packed + pair * 64, tile[pair]);
    }
  }
}

/// Sixteen rows of x by sixteen outputs, from sums[n][t]: tile[row] lane = output. `scale`: of these outputs, or null.
FORETOKEN_SIMD_INLINE void load_outputs(const float* sums, const float* scale, __m512* tile) {
  for (size_t n = 0; n < kAmxTile; ++n) {
    tile[n] = _mm512_load_ps(sums + n * kPair * kAmxTile);
    if (scale != nullptr) tile[n] = _mm512_mul_ps(tile[n], _mm512_set1_ps(scale[n]));
  }
  transpose(tile);
}

FORETOKEN_SIMD_INLINE const float* scale_from(uint64_t scale, size_t column) {
  return scale == 0 ? nullptr : pointer<const float>(scale) + column;
}

/// Writes the results of two by two tiles: rows from `row`, `tile_columns` times sixteen outputs from `column`.
void store_outputs(const AmxLinearParams& p, const float* sums, const float* up_sums, size_t row, size_t column,
                   size_t tile_columns) {
  for (size_t first_row = row; first_row < smaller(row + kPair * kAmxTile, p.num_rows); first_row += kAmxTile) {
    for (size_t c = 0; c < tile_columns; ++c) {
      const size_t at = c * kAmxTile * kPair * kAmxTile + (first_row - row);
      const size_t first_column = column + c * kAmxTile;
      __m512 tile[kLanes];
      load_outputs(sums + at, scale_from(p.weight_scale, first_column), tile);
      if (p.up != 0) {
        __m512 up[kLanes];
        load_outputs(up_sums + at, scale_from(p.up_scale, first_column), up);
        for (size_t r = 0; r < kAmxTile; ++r) tile[r] = (silu(F32x16{tile[r]}) * F32x16{up[r]}).v;
      }
      float* out = pointer<float>(p.out) + first_row * p.out_stride + first_column;
      const size_t rows = smaller(kAmxTile, p.num_rows - first_row);
      for (size_t r = 0; r < rows; ++r) _mm512_storeu_ps(out + r * p.out_stride, tile[r]);
    }
  }
}

void amx_linear(const AmxLinearParams& p, uint32_t begin, uint32_t end) {
  const TileConfiguration configuration;
  const size_t block_bytes = p.in_features / kAmxDepth * kTileBytes;
  const auto* packed = pointer<const uint8_t>(p.packed);
  alignas(64) float sums[kPair * kAmxTile * kPair * kAmxTile];
  alignas(64) float up_sums[kPair * kAmxTile * kPair * kAmxTile];
  const size_t product_lines = p.in_features / kAmxDepth * p.prefetch_lines;
  for (size_t item = begin; item < end; ++item) {
    const size_t first = item * p.slice_columns;
    const size_t last = smaller(first + p.slice_columns, p.out_features);
    const size_t lines = item + 1 < end ? p.prefetch_lines : 0;
    size_t num_products = 0;
    for (size_t row = 0; row < p.num_rows; row += kPair * kAmxTile) {
      const uint8_t* x = packed + row / kAmxTile * block_bytes;
      for (size_t column = first; column < last; column += kPair * kAmxTile, ++num_products) {
        // A single tile at the end is computed twice and stored once.
        const size_t next = column + kAmxTile < last ? column + kAmxTile : column;
        const auto multiply = [&](uint64_t weight, float* into) {
          const auto* w = pointer<const uint16_t>(weight);
          const char* later = pointer<const char>(weight) + last * p.in_features * sizeof(uint16_t);
          multiply_tiles({.w = w + column * p.in_features,
                          .w_next = w + next * p.in_features,
                          .x = x,
                          .x_next = x + block_bytes,
                          .in_features = p.in_features,
                          .prefetch = later + num_products * product_lines * kLineBytes,
                          .prefetch_lines = lines},
                         into);
        };
        multiply(p.weight, sums);
        if (p.up != 0) multiply(p.up, up_sums);
        store_outputs(p, sums, up_sums, row, column, next == column ? 1 : kPair);
      }
    }
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<AmxPackParams, amx_pack>("amx_pack"),
    kernel_entry<AmxLinearParams, amx_linear>("amx_linear"),
};

}  // namespace

void add_amx_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
