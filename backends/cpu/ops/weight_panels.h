// BF16 products with quantised weights: some rows at a time become BF16 in the workspace, where the product reads them at once.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "backends/cpu/kernels/quantize_params.h"
#include "backends/cpu/ops/operands.h"
#include "backends/kernel.h"
#include "core/linear_weight.h"

namespace foretoken::cpu {

/// Writes all rows of `w` to `out` [N, K] F32 or BF16.
[[nodiscard]] inline DequantizeParams dequantize_params(const LinearWeight& w, const Tensor& out) {
  return {.codes = pointer<const void>(w.weight),
          .scale = pointer<const void>(w.scale),
          .global_scale = pointer<const float>(w.global_scale),
          .out = pointer<void>(out),
          .row_scale = nullptr,
          .first_row = 0,
          .num_columns = static_cast<size_t>(w.in_features()),
          .block_rows = static_cast<size_t>(w.block_rows),
          .rows_per_global_scale = w.global_scale ? static_cast<size_t>(w.out_features() / w.global_scale.dim(0)) : 1,
          .format = w.format,
          .one_scale = w.format == WeightFormat::kFp8Row && w.scale.shape() == Shape{1},
          .scale_is_bf16 = w.scale && w.scale.dtype() == DType::kBF16,
          .out_is_bf16 = out.dtype() == DType::kBF16};
}

/// Rows of a weight in BF16.
struct WeightPanel {
  uint64_t rows = 0;       // [count, K] BF16; 0: no such weight
  uint64_t row_scale = 0;  // [count] F32, by which results are multiplied; 0: none
};

/// The rows of a weight that a BF16 product takes at a time. Codes of FP8 rows and of NVFP4 with their group scale are exact in
/// BF16, so only FP8 blocks are rounded.
class WeightPanels {
 public:
  explicit WeightPanels(const KernelModule& module) : dequantize_(module.resolve<DequantizeParams>("dequantize")) {}

  [[nodiscard]] static bool takes(WeightFormat format) { return format != WeightFormat::kF32; }

  /// All rows of a BF16 weight, which is read where it is; otherwise a multiple of 256 whose BF16 fits second-level caches.
  [[nodiscard]] static uint32_t rows(const LinearWeight& w) {
    constexpr int64_t kPanelBytes = int64_t{2} << 20;
    constexpr int64_t kGrain = 256;
    if (w.format == WeightFormat::kBF16) return static_cast<uint32_t>(w.out_features());
    const int64_t fitting = kPanelBytes / (w.in_features() * int64_t{sizeof(uint16_t)}) / kGrain * kGrain;
    return static_cast<uint32_t>(std::min(std::max(fitting, kGrain), w.out_features()));
  }

  /// Bytes of a panel in the workspace: the rows, then their scales.
  [[nodiscard]] static size_t bytes(const LinearWeight& w) {
    return w.format == WeightFormat::kBF16 ? 0 : row_bytes(w) + align(size_t{rows(w)} * sizeof(float));
  }

  /// Calls multiply(first row, rows, panels) for all rows of `weights` (one or two, alike), whose panels lie behind each other at
  /// `memory`. The second panel is absent where there is one weight.
  template <class Multiply>
  void for_each(CommandList& cmd, std::span<const LinearWeight* const> weights, uint64_t memory, std::span<const Access> accesses,
                const Multiply& multiply) const {
    const LinearWeight& first_weight = *weights.front();
    const auto num_rows = static_cast<uint32_t>(first_weight.out_features());
    const uint32_t panel_rows = rows(first_weight);
    std::array<WeightPanel, 2> panels;
    for (uint32_t first = 0; first < num_rows; first += panel_rows) {
      const uint32_t count = std::min(panel_rows, num_rows - first);
      for (size_t i = 0; i < weights.size(); ++i) {
        if (weights[i]->format == WeightFormat::kBF16) {
          panels[i].rows = weights[i]->weight.address();
          continue;
        }
        panels[i].rows = memory + i * bytes(first_weight);
        panels[i].row_scale = panels[i].rows + row_bytes(first_weight);
        DequantizeParams params = dequantize_params(*weights[i], Tensor());
        params.out = reinterpret_cast<void*>(static_cast<uintptr_t>(panels[i].rows));
        params.row_scale = reinterpret_cast<float*>(static_cast<uintptr_t>(panels[i].row_scale));
        params.first_row = first;
        params.out_is_bf16 = true;
        dequantize_(cmd, items(count), params, accesses);
      }
      multiply(first, count, panels);
    }
  }

 private:
  [[nodiscard]] static size_t align(size_t bytes) { return (bytes + 63) / 64 * 64; }
  [[nodiscard]] static size_t row_bytes(const LinearWeight& w) {
    return align(size_t{rows(w)} * static_cast<size_t>(w.in_features()) * sizeof(uint16_t));
  }

  Kernel<DequantizeParams> dequantize_;
};

}  // namespace foretoken::cpu
