#include "backends/gpu/ops/weights.h"

#include <algorithm>
#include <limits>

namespace foretoken::gpu {
namespace {

/// Weight elements of one 16-byte vector.
uint32_t vector_elements(WeightFormat format) { return static_cast<uint32_t>(128 / dtype_bits(code_dtype(format))); }

/// Bytes from one matrix of a stack to the next; 0 where there is no stack or no such tensor.
uint64_t stack_stride(const Tensor& tensor, bool stacked) {
  if (!stacked || tensor.is_absent()) return 0;
  return dtype_bytes(tensor.dtype(), static_cast<size_t>(tensor.shape().row_elements()));
}

}  // namespace

WeightParams weight_params(const LinearWeight& w) {
  const bool stacked = w.weight.shape().rank() == 3;
  WeightParams params{.codes = w.weight.address(),
                      .scale = w.scale.address(),
                      .global_scale = w.global_scale.address(),
                      .codes_stride = stack_stride(w.weight, stacked),
                      .scale_stride = stack_stride(w.scale, stacked),
                      .global_scale_stride = stack_stride(w.global_scale, stacked),
                      .scale_columns = 0,
                      .block_shift = 0,
                      .rows_per_global = 1,
                      .scale_is_bf16 = w.scale ? is_bf16(w.scale) : 0U};
  const Shape& scales = w.scale.shape();
  switch (w.format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16: break;
    case WeightFormat::kFp8Row: params.scale_columns = scales == Shape{1} && !stacked ? 0 : 1; break;
    case WeightFormat::kFp8Block:
      params.scale_columns = static_cast<uint32_t>(scales[scales.rank() - 1]);
      params.block_shift = static_cast<uint32_t>(std::countr_zero(static_cast<uint32_t>(w.block_rows)));
      break;
    case WeightFormat::kNvfp4: {
      const Shape& groups = w.global_scale.shape();
      params.scale_columns = static_cast<uint32_t>(scales[scales.rank() - 1]);
      params.rows_per_global = static_cast<uint32_t>(w.out_features() / groups[groups.rank() - 1]);
      break;
    }
  }
  return params;
}

uint32_t num_slices(const LinearWeight& w, int64_t out_features, uint32_t one_row_columns) {
  // Enough warps to keep the memory of a large device busy; of a stack, several matrices are read at a time. Instructions bound
  // narrow kernels of NVFP4, and each warp has some of its own: on an H200 weights of 8192 rows want no more than one slice.
  const bool is_stack = w.weight.shape().rank() == 3;
  const bool is_narrow = one_row_columns < kWarpColumns;
  const int64_t wanted_warps = is_stack ? 256 : is_narrow && w.format == WeightFormat::kNvfp4 ? 2048 : 8192;
  const int64_t tiles = std::max<int64_t>(1, out_features / kWarpColumns);
  const int64_t steps = w.in_features() / (int64_t{vector_elements(w.format)} * 32);  // of a warp over a row
  int64_t slices = 1;
  while (slices < int64_t{kLinearWarps} && tiles * slices < wanted_warps && slices * 2 <= steps) slices *= 2;
  return static_cast<uint32_t>(slices);
}

LinearParams linear_params(const LinearWeight& w, const Tensor& x, const Tensor& out, uint32_t one_row_columns) {
  return {.weight = weight_params(w),
          .second = {},
          .x = x.address(),
          .out = out.address(),
          .x_stride = stride(x),
          .out_stride = stride(out),
          .num_rows = extent(x, 0),
          .in_features = extent(x, 1),
          .out_features = extent(out, 1),
          .num_slices = num_slices(w, out.dim(1), one_row_columns),
          .x_is_bf16 = is_bf16(x),
          .out_is_bf16 = is_bf16(out)};
}

LinearParams linear_params(const LinearSiluMul& op, uint32_t one_row_columns) {
  LinearParams params = linear_params(op.gate, op.x, op.out, one_row_columns);
  params.second = weight_params(op.up);
  params.num_slices = num_slices(op.gate, 2 * op.out.dim(1), one_row_columns);
  return params;
}

bool is_aligned(const LinearWeight& w, const Tensor& x) {
  constexpr uint64_t kVectorBytes = 16;
  const uint64_t row_bytes = stride(x) * dtype_bits(x.dtype()) / 8;
  return w.in_features() % vector_elements(w.format) == 0 && w.weight.address() % kVectorBytes == 0 &&
         (w.format != WeightFormat::kNvfp4 || w.scale.address() % 2 == 0) && x.address() % kVectorBytes == 0 &&
         row_bytes % kVectorBytes == 0;
}

Availability has_whole_vectors(const LinearWeight& w, const Tensor& x) {
  if (is_aligned(w, x)) return Availability::yes();
  return Availability::no("operands must begin and rows must follow each other at multiples of 16 bytes");
}

Availability fits_32_bits(const Tensor& x) {
  const uint64_t elements = static_cast<uint64_t>(x.dim(0)) * stride(x);
  if (elements <= std::numeric_limits<uint32_t>::max()) return Availability::yes();
  return Availability::no("at most 2^32 elements of activations in a call");
}

Availability gate_and_up_agree(const LinearSiluMul& op) {
  if (op.gate.scale && op.gate.scale.dtype() != op.up.scale.dtype())
    return Availability::no("scales of gate and up of one dtype");
  if (op.gate.global_scale && op.gate.global_scale.shape() != op.up.global_scale.shape()) {
    return Availability::no("as many global scales of gate as of up");
  }
  return Availability::yes();
}

std::string kernel_suffix(WeightFormat format) {
  std::string name(to_string(format));
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace foretoken::gpu
