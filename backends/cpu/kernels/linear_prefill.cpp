// Rounding activations to BF16 for the matrix product of prefill, and writing its transposed result out. Matrix hardware comes
// with AVX-512, so there is no other version.
#include "backends/cpu/kernels/linear_prefill.h"

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/linear_prefill_params.h"
#include "backends/cpu/kernels/linear_tile.h"
#include "backends/cpu/kernels/transpose.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

#if defined(__AVX512F__)
namespace {

void prefill_round(const PrefillRoundParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    uint16_t* out = pointer<uint16_t>(p.out) + row * p.in_features;
    if (row >= p.num_rows) {
      __builtin_memset(out, 0, p.in_features * sizeof(uint16_t));
      continue;
    }
    const float* x = pointer<const float>(p.x) + row * p.x_stride;
    size_t k = 0;
    for (; k + kLanes <= p.in_features; k += kLanes) store_bf16_or_nan(F32x16::load(x + k), out + k);
    if (k < p.in_features) {
      uint16_t tail[kLanes];
      store_bf16_or_nan(F32x16::load_partial(x + k, p.in_features - k), tail);
      __builtin_memcpy(out + k, tail, (p.in_features - k) * sizeof(uint16_t));
    }
  }
}

/// Sixteen rows of outputs from `columns` rows of `product`, `stride` apart: tile[row] lane = column. `scale`: of the outputs
/// from `column` on, or 0.
FORETOKEN_SIMD_INLINE void load_transposed(const float* product, size_t stride, uint64_t scale, size_t column, size_t columns,
                                           __m512* tile) {
  for (size_t c = 0; c < kLanes; ++c) {
    tile[c] = c < columns ? _mm512_loadu_ps(product + c * stride) : _mm512_setzero_ps();
    if (scale != 0 && c < columns) tile[c] = _mm512_mul_ps(tile[c], _mm512_set1_ps(pointer<const float>(scale)[column + c]));
  }
  transpose(tile);
}

void prefill_store(const PrefillStoreParams& p, uint32_t begin, uint32_t end) {
  const size_t tiles = (p.out_features + kPrefillStoreColumns - 1) / kPrefillStoreColumns;
  for (size_t item = begin; item < end; ++item) {
    const size_t first_row = item / tiles * kPrefillChunkRows;
    const size_t chunk_rows = smaller(kPrefillChunkRows, p.padded_rows - first_row);
    const size_t first_column = item % tiles * kPrefillStoreColumns;
    const size_t last_column = smaller(first_column + kPrefillStoreColumns, p.out_features);
    for (size_t row = first_row; row < smaller(first_row + chunk_rows, p.num_rows); row += kLanes) {
      const size_t rows = smaller(kLanes, p.num_rows - row);
      for (size_t column = first_column; column < last_column; column += kLanes) {
        const size_t columns = smaller(kLanes, last_column - column);
        const size_t at = first_row * p.out_features + column * chunk_rows + (row - first_row);
        __m512 tile[kLanes];
        load_transposed(pointer<const float>(p.product) + at, chunk_rows, p.scale, column, columns, tile);
        if (p.up != 0) {
          __m512 up[kLanes];
          load_transposed(pointer<const float>(p.up) + at, chunk_rows, p.up_scale, column, columns, up);
          for (size_t r = 0; r < rows; ++r) tile[r] = (silu(F32x16{tile[r]}) * F32x16{up[r]}).v;
        }
        for (size_t r = 0; r < rows; ++r) {
          F32x16{tile[r]}.store_partial(pointer<float>(p.out) + (row + r) * p.out_stride + column, columns);
        }
      }
    }
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<PrefillRoundParams, prefill_round>("prefill_round"),
    kernel_entry<PrefillStoreParams, prefill_store>("prefill_store"),
};

}  // namespace

void add_prefill_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

#else

void add_prefill_kernels(std::vector<KernelEntry>&) {}

#endif

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
