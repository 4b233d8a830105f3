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

/// Dequantises rows of `w` from `first_row` on, as many as the launch has items, to `out` [rows, K] F32 or BF16.
[[nodiscard]] inline DequantizeParams dequantize_params(const LinearWeight& w, size_t first_row, uint64_t out, bool out_is_bf16) {
  return {.codes = pointer<const void>(w.weight),
          .scale = pointer<const void>(w.scale),
          .global_scale = pointer<const float>(w.global_scale),
          .out = reinterpret_cast<void*>(static_cast<uintptr_t>(out)),
          .first_row = first_row,
          .num_columns = static_cast<size_t>(w.in_features()),
          .block_rows = static_cast<size_t>(w.block_rows),
          .rows_per_global_scale = w.global_scale ? static_cast<size_t>(w.out_features() / w.global_scale.dim(0)) : 1,
          .format = w.format,
          .one_scale = w.format == WeightFormat::kFp8Row && w.scale.shape() == Shape{1},
          .scale_is_bf16 = w.scale && w.scale.dtype() == DType::kBF16,
          .out_is_bf16 = out_is_bf16};
}

/// The rows of a weight that a BF16 product takes at a time.
class WeightPanels {
 public:
  explicit WeightPanels(const KernelModule& module) : dequantize_(module.resolve<DequantizeParams>("dequantize")) {}

  /// Whether the weight can be had in BF16 without losing more than that format's codes hold.
  [[nodiscard]] static bool takes(WeightFormat format) { return format != WeightFormat::kF32; }

  /// All rows of a BF16 weight, which is read where it is; otherwise a multiple of 256 whose BF16 fits second-level caches.
  [[nodiscard]] static uint32_t rows(const LinearWeight& w) {
    constexpr int64_t kPanelBytes = int64_t{2} << 20;
    constexpr int64_t kGrain = 256;
    if (w.format == WeightFormat::kBF16) return static_cast<uint32_t>(w.out_features());
    const int64_t fitting = kPanelBytes / (w.in_features() * int64_t{sizeof(uint16_t)}) / kGrain * kGrain;
    return static_cast<uint32_t>(std::min(std::max(fitting, kGrain), w.out_features()));
  }

  /// Bytes of a panel in the workspace, a multiple of 64.
  [[nodiscard]] static size_t bytes(const LinearWeight& w) {
    if (w.format == WeightFormat::kBF16) return 0;
    return (size_t{rows(w)} * static_cast<size_t>(w.in_features()) * sizeof(uint16_t) + 63) / 64 * 64;
  }

  /// Calls multiply(first row, rows, BF16 addresses of these rows) for each panel of `weights` (one or two, alike), whose panels
  /// lie behind each other at `memory`.
  template <class Multiply>
  void for_each(CommandList& cmd, std::span<const LinearWeight* const> weights, uint64_t memory, std::span<const Access> accesses,
                const Multiply& multiply) const {
    const LinearWeight& first_weight = *weights.front();
    const auto num_rows = static_cast<uint32_t>(first_weight.out_features());
    const uint32_t panel_rows = rows(first_weight);
    std::array<uint64_t, 2> addresses{};
    for (uint32_t first = 0; first < num_rows; first += panel_rows) {
      const uint32_t count = std::min(panel_rows, num_rows - first);
      for (size_t i = 0; i < weights.size(); ++i) {
        if (weights[i]->format == WeightFormat::kBF16) {
          addresses[i] = weights[i]->weight.address();
          continue;
        }
        addresses[i] = memory + i * bytes(first_weight);
        dequantize_(cmd, items(count), dequantize_params(*weights[i], first, addresses[i], true), accesses);
      }
      multiply(first, count, addresses);
    }
  }

 private:
  Kernel<DequantizeParams> dequantize_;
};

}  // namespace foretoken::cpu
