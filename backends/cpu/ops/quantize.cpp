// abs_max, quantize_fp8_row, quantize_fp8_block, quantize_nvfp4, dequantize.
#include "core/ops/quantize.h"

#include <algorithm>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/quantize_params.h"
#include "backends/cpu/ops/operands.h"
#include "backends/cpu/ops/weight_panels.h"

namespace foretoken::cpu {
namespace {

QuantizeSource source_of(const Tensor& x) {
  return {.x = pointer<const void>(x),
          .stride = stride(x),
          .num_rows = dimension(x, 0),
          .num_columns = dimension(x, 1),
          .is_bf16 = x.dtype() == DType::kBF16};
}

size_t abs_max_rows_per_item(size_t num_rows) { return std::max(kAbsMaxRows, ceil_div(num_rows, kAbsMaxItems)); }

size_t abs_max_items(const AbsMax& op) {
  const size_t num_rows = dimension(op.x, 0);
  return ceil_div(num_rows, abs_max_rows_per_item(num_rows));
}

void add_abs_max(OpTable& table, const KernelModule& module) {
  table.add<AbsMax>(
      "cpu",
      [parts = module.resolve<AbsMaxParams>("abs_max"), join = module.resolve<AbsMaxJoinParams>("abs_max_join")](
          CommandList& cmd, const AbsMax& op) {
        const size_t num_items = abs_max_items(op);
        parts(cmd, items(num_items),
              {.source = source_of(op.x),
               .partial = pointer<uint32_t>(op.workspace),
               .rows_per_item = abs_max_rows_per_item(dimension(op.x, 0))},
              accesses_of(op));
        join(cmd, items(1),
             {.partial = pointer<const uint32_t>(op.workspace), .amax = pointer<float>(op.amax), .num_partial = num_items},
             accesses_of(op));
      },
      nullptr, [](const AbsMax& op) { return abs_max_items(op) * sizeof(uint32_t); });
}

void add_fp8(OpTable& table, const KernelModule& module) {
  table.add<QuantizeFp8Row>("cpu", [kernel = module.resolve<QuantizeFp8RowParams>("quantize_fp8_row")](CommandList& cmd,
                                                                                                       const QuantizeFp8Row& op) {
    kernel(cmd, items(dimension(op.x, 0)),
           {.source = source_of(op.x), .codes = pointer<uint8_t>(op.codes), .scale = pointer<float>(op.scale)}, accesses_of(op));
  });
  table.add<QuantizeFp8Block>("cpu", [kernel = module.resolve<QuantizeFp8BlockParams>("quantize_fp8_block")](
                                         CommandList& cmd, const QuantizeFp8Block& op) {
    kernel(cmd, items(dimension(op.scale, 0) * ceil_div(dimension(op.x, 1), kFp8StripColumns)),
           {.source = source_of(op.x),
            .codes = pointer<uint8_t>(op.codes),
            .scale = pointer<void>(op.scale),
            .scale_is_bf16 = op.scale.dtype() == DType::kBF16},
           accesses_of(op));
  });
}

void add_nvfp4(OpTable& table, const KernelModule& module) {
  table.add<QuantizeNvfp4>(
      "cpu", [kernel = module.resolve<QuantizeNvfp4Params>("quantize_nvfp4")](CommandList& cmd, const QuantizeNvfp4& op) {
        kernel(cmd, items(dimension(op.x, 0)),
               {.source = source_of(op.x),
                .amax = pointer<const float>(op.amax),
                .column_weight = pointer<const float>(op.column_weight),
                .codes = pointer<uint8_t>(op.codes),
                .scale = pointer<uint8_t>(op.scale),
                .global_scale = pointer<float>(op.global_scale)},
               accesses_of(op));
      });
}

void add_dequantize(OpTable& table, const KernelModule& module) {
  table.add<Dequantize>("cpu", [kernel = module.resolve<DequantizeParams>("dequantize")](CommandList& cmd, const Dequantize& op) {
    kernel(cmd, items(dimension(op.out, 0)), dequantize_params(op.w, op.out), accesses_of(op));
  });
}

}  // namespace

void add_quantize_ops(OpTable& table, const KernelModule& module) {
  add_abs_max(table, module);
  add_fp8(table, module);
  add_nvfp4(table, module);
  add_dequantize(table, module);
}

}  // namespace foretoken::cpu
