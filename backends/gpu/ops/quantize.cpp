// abs_max, quantize_fp8_row, quantize_fp8_block, quantize_nvfp4, dequantize.
#include "core/ops/quantize.h"

#include <algorithm>

#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/ops/operands.h"
#include "backends/gpu/quantize_params.h"

namespace foretoken::gpu {
namespace {

QuantizeSource source_of(const Tensor& x) {
  return {.x = x.address(),
          .stride = stride(x),
          .num_rows = static_cast<uint64_t>(x.dim(0)),
          .num_columns = extent(x, 1),
          .is_bf16 = is_bf16(x)};
}

uint32_t abs_max_groups(const AbsMax& op) { return std::clamp(ceil_div(extent(op.x, 0), kAbsMaxRows), 1U, kAbsMaxGroups); }

size_t abs_max_workspace_bytes(const AbsMax& op) { return size_t{abs_max_groups(op)} * sizeof(uint32_t); }

void add_abs_max(OpTable& table, const KernelModule& module) {
  table.add<AbsMax>(
      "gpu",
      [parts = module.resolve<AbsMaxParams>("abs_max"), join = module.resolve<AbsMaxJoinParams>("abs_max_join")](
          CommandList& cmd, const AbsMax& op) {
        const uint32_t num_groups = abs_max_groups(op);
        const uint64_t partial = checked_workspace("abs_max", op.workspace, abs_max_workspace_bytes(op));
        parts(cmd, Grid{num_groups}, {.source = source_of(op.x), .partial = partial}, accesses_of(op));
        join(cmd, Grid{1}, {.partial = partial, .amax = op.amax.address(), .num_partial = num_groups}, accesses_of(op));
      },
      nullptr, abs_max_workspace_bytes);
}

void add_fp8(OpTable& table, const KernelModule& module) {
  table.add<QuantizeFp8Row>(
      "gpu", [kernel = module.resolve<QuantizeFp8RowParams>("quantize_fp8_row")](CommandList& cmd, const QuantizeFp8Row& op) {
        kernel(cmd, Grid{extent(op.x, 0)}, {.source = source_of(op.x), .codes = op.codes.address(), .scale = op.scale.address()},
               accesses_of(op));
      });
  table.add<QuantizeFp8Block>("gpu", [kernel = module.resolve<QuantizeFp8BlockParams>("quantize_fp8_block")](
                                         CommandList& cmd, const QuantizeFp8Block& op) {
    kernel(
        cmd, Grid{extent(op.scale, 1), extent(op.scale, 0)},
        {.source = source_of(op.x), .codes = op.codes.address(), .scale = op.scale.address(), .scale_is_bf16 = is_bf16(op.scale)},
        accesses_of(op));
  });
}

void add_nvfp4(OpTable& table, const KernelModule& module) {
  table.add<QuantizeNvfp4>(
      "gpu", [kernel = module.resolve<QuantizeNvfp4Params>("quantize_nvfp4")](CommandList& cmd, const QuantizeNvfp4& op) {
        kernel(cmd, Grid{extent(op.x, 0)},
               {.source = source_of(op.x),
                .amax = op.amax.address(),
                .column_weight = op.column_weight.address(),
                .codes = op.codes.address(),
                .scale = op.scale.address(),
                .global_scale = op.global_scale.address()},
               accesses_of(op));
      });
}

void add_dequantize(OpTable& table, const KernelModule& module) {
  table.add<Dequantize>("gpu", [kernel = module.resolve<DequantizeParams>("dequantize")](CommandList& cmd, const Dequantize& op) {
    const uint32_t num_rows = extent(op.out, 0);
    kernel(cmd, Grid{num_rows},
           {.codes = op.w.weight.address(),
            .scale = op.w.scale.address(),
            .global_scale = op.w.global_scale.address(),
            .out = op.out.address(),
            .num_columns = extent(op.out, 1),
            .block_rows = static_cast<uint32_t>(op.w.block_rows),
            .rows_per_global_scale = op.w.global_scale ? num_rows / extent(op.w.global_scale, 0) : 1,
            .one_scale = op.w.format == WeightFormat::kFp8Row && op.w.scale.shape() == Shape{1} ? 1U : 0U,
            .scale_is_bf16 = op.w.scale ? is_bf16(op.w.scale) : 0U,
            .out_is_bf16 = is_bf16(op.out),
            .format = op.w.format},
           accesses_of(op));
  });
}

}  // namespace

void add_quantize_ops(OpTable& table, const KernelModule& module) {
  add_abs_max(table, module);
  add_fp8(table, module);
  add_nvfp4(table, module);
  add_dequantize(table, module);
}

}  // namespace foretoken::gpu
