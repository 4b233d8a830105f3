// linear, linear_silu_mul and linear_argmax (core/ops/linear.h) and the experts (core/ops/moe.h) on tiles.
#include "backends/cpu/kernels/linear_amx.h"

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/linear_kernels.h"
#include "backends/cpu/kernels/linear_tile_sums.h"
#include "backends/cpu/kernels/moe_experts.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

/// All parts are BF16.
void linear_group_tiles(const LinearGroupParams& p, uint32_t begin, uint32_t end) {
  constexpr LinearFn kLinearOfFormat[] = {nullptr, linear<Bf16TileRows>};
  linear_group_of(kLinearOfFormat, p, begin, end);
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<LinearParams, linear<Bf16TileRows>>("linear_tiles_bf16"),
    kernel_entry<LinearGroupParams, linear_group_tiles>("linear_group_tiles"),
    kernel_entry<LinearSiluMulParams, linear_silu_mul<Bf16TileRows>>("linear_silu_mul_tiles_bf16"),
    kernel_entry<LinearArgmaxParams, linear_argmax<Bf16TileRows>>("linear_argmax_tiles_bf16"),
    kernel_entry<MoeExpertsParams, moe_experts_up<Bf16TileRows>>("moe_experts_up_tiles_bf16"),
    kernel_entry<MoeExpertsParams, moe_experts_down<Bf16TileRows>>("moe_experts_down_tiles_bf16"),
};

}  // namespace

void add_amx_linear_kernels(std::vector<KernelEntry>& list) { append(list, kEntries); }

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
