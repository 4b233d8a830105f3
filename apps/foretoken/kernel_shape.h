// What `bench kernels` can time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace foretoken::cli {

/// Moe: both projections of the routed experts.
enum class KernelOp : uint8_t { kLinear, kLinearArgmax, kLinearSiluMul, kMoe };
inline constexpr std::array<std::string_view, 4> kKernelOpNames{"linear", "linear_argmax", "linear_silu_mul", "moe"};

/// An operator over a weight [rows_out, columns], or over experts: gate and up [rows_out, columns], down [columns, rows_out].
struct KernelShape {
  KernelOp op = KernelOp::kLinear;
  int64_t rows_out = 0;
  int64_t columns = 0;
  int64_t num_experts = 0;          // moe only
  int64_t num_experts_per_tok = 0;  // moe only

  /// "17408x5120", "64x512x2048, top 8".
  [[nodiscard]] std::string to_string() const;
};

}  // namespace foretoken::cli
