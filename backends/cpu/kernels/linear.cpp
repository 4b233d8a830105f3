// linear, linear_silu_mul and linear_argmax (core/ops/linear.h).
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/linear_fp8.h"
#include "backends/cpu/kernels/linear_kernels.h"
#include "backends/cpu/kernels/linear_nvfp4.h"
#include "backends/cpu/kernels/linear_prefill.h"

namespace foretoken::cpu::FORETOKEN_CPU_ISA {
namespace {

/// By WeightFormat.
constexpr LinearFn kLinearOfFormat[] = {
    linear<F32Rows>,   linear<Bf16Rows>, linear<Fp8RowRows>, linear<Fp8BlockRows>,
#if defined(__AVX2__)
    linear<Nvfp4Rows>,
#endif
};

void linear_group(const LinearGroupParams& p, uint32_t begin, uint32_t end) { linear_group_of(kLinearOfFormat, p, begin, end); }

/// log sum exp of a row, from its tiles.
float log_sum_exp(const float* tile_max, const float* tile_sum, size_t tiles, float largest) {
  F32x16 sum = F32x16::zero();
  for (size_t t = 0; t < tiles; t += kLanes) {
    const size_t count = smaller(kLanes, tiles - t);
    const F32x16 scale = exp(F32x16::load_partial(tile_max + t, count) - F32x16::broadcast(largest));
    sum = fma(scale, F32x16::load_partial(tile_sum + t, count), sum);
  }
  return largest + __builtin_logf(reduce_add(sum));
}

void linear_argmax_combine(const LinearArgmaxCombineParams& p, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    const float* tile_max = pointer<const float>(p.tile_max) + row * p.num_tiles;
    const int32_t* tile_id = pointer<const int32_t>(p.tile_id) + row * p.num_tiles;
    Best best;
    for (size_t t = 0; t < p.num_tiles; ++t) {
      if (tile_id[t] >= 0) best.offer(tile_max[t], tile_id[t]);
    }
    const int32_t row_id = best.id < 0 ? 0 : best.id;
    pointer<int32_t>(p.token_ids)[row] = p.token_map == 0 ? row_id : pointer<const int32_t>(p.token_map)[row_id];
    if (p.logprobs != 0) {
      const float* tile_sum = pointer<const float>(p.tile_sum) + row * p.num_tiles;
      pointer<float>(p.logprobs)[row] = best.value - log_sum_exp(tile_max, tile_sum, p.num_tiles, best.value);
    }
  }
}

constexpr KernelEntry kEntries[] = {
    kernel_entry<LinearParams, linear<F32Rows>>("linear_f32"),
    kernel_entry<LinearParams, linear<Bf16Rows>>("linear_bf16"),
    kernel_entry<LinearParams, linear<Fp8RowRows>>("linear_fp8_row"),
    kernel_entry<LinearParams, linear<Fp8BlockRows>>("linear_fp8_block"),
    kernel_entry<LinearGroupParams, linear_group>("linear_group"),
    kernel_entry<LinearSiluMulParams, linear_silu_mul<F32Rows>>("linear_silu_mul_f32"),
    kernel_entry<LinearSiluMulParams, linear_silu_mul<Bf16Rows>>("linear_silu_mul_bf16"),
    kernel_entry<LinearSiluMulParams, linear_silu_mul<Fp8RowRows>>("linear_silu_mul_fp8_row"),
    kernel_entry<LinearSiluMulParams, linear_silu_mul<Fp8BlockRows>>("linear_silu_mul_fp8_block"),
    kernel_entry<LinearArgmaxParams, linear_argmax<F32Rows>>("linear_argmax_f32"),
    kernel_entry<LinearArgmaxParams, linear_argmax<Bf16Rows>>("linear_argmax_bf16"),
    kernel_entry<LinearArgmaxParams, linear_argmax<Fp8RowRows>>("linear_argmax_fp8_row"),
    kernel_entry<LinearArgmaxParams, linear_argmax<Fp8BlockRows>>("linear_argmax_fp8_block"),
    kernel_entry<LinearArgmaxCombineParams, linear_argmax_combine>("linear_argmax_combine"),
};

#if defined(__AVX2__)
constexpr KernelEntry kNvfp4Entries[] = {
    kernel_entry<LinearParams, linear<Nvfp4Rows>>("linear_nvfp4"),
    kernel_entry<LinearSiluMulParams, linear_silu_mul<Nvfp4Rows>>("linear_silu_mul_nvfp4"),
    kernel_entry<LinearArgmaxParams, linear_argmax<Nvfp4Rows>>("linear_argmax_nvfp4"),
};
#endif

}  // namespace

void add_linear_kernels(std::vector<KernelEntry>& list) {
  append(list, kEntries);
#if defined(__AVX2__)
  append(list, kNvfp4Entries);
#endif
  add_prefill_kernels(list);
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
