// rms_norm, add_rms_norm, mtp_input, rope_table, rope.
#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/norm_params.h"
#include "backends/cpu/ops/operands.h"
#include "core/ops/mtp_input.h"
#include "core/ops/rms_norm.h"
#include "core/ops/rope.h"

namespace foretoken::cpu {
namespace {

void add_rms_norms(OpTable& table, const KernelModule& module) {
  table.add<RmsNorm>(
      "cpu",
      [kernel = module.resolve<RmsNormParams>("rms_norm")](CommandList& cmd, const RmsNorm& op) {
        kernel(cmd, items(dimension(op.x, 0)),
               {.x = pointer<const float>(op.x),
                .weight = pointer<const float>(op.weight),
                .out = pointer<float>(op.out),
                .x_stride = stride(op.x),
                .out_stride = stride(op.out),
                .hidden_size = dimension(op.x, 1),
                .eps = op.eps},
               accesses_of(op));
      },
      [](const RmsNorm& op) {
        return activations_are_f32({&op.x, &op.out});
      });

  table.add<AddRmsNorm>(
      "cpu",
      [kernel = module.resolve<AddRmsNormParams>("add_rms_norm")](CommandList& cmd, const AddRmsNorm& op) {
        kernel(cmd, items(dimension(op.x, 0)),
               {.x = pointer<const float>(op.x),
                .residual = pointer<float>(op.residual),
                .weight = pointer<const float>(op.weight),
                .out = pointer<float>(op.out),
                .x_stride = stride(op.x),
                .residual_stride = stride(op.residual),
                .out_stride = stride(op.out),
                .hidden_size = dimension(op.x, 1),
                .eps = op.eps},
               accesses_of(op));
      },
      [](const AddRmsNorm& op) {
        return activations_are_f32({&op.x, &op.residual, &op.out});
      });
}

void add_mtp_input(OpTable& table, const KernelModule& module) {
  table.add<MtpInput>(
      "cpu",
      [kernel = module.resolve<MtpInputParams>("mtp_input")](CommandList& cmd, const MtpInput& op) {
        kernel(cmd, items(2 * dimension(op.ids, 0)),
               {.ids = pointer<const int32_t>(op.ids),
                .table = pointer<const void>(op.table),
                .hidden = pointer<const float>(op.hidden),
                .hidden_rows = pointer<const int32_t>(op.hidden_rows),
                .embedding_norm = pointer<const float>(op.embedding_norm),
                .hidden_norm = pointer<const float>(op.hidden_norm),
                .out = pointer<float>(op.out),
                .hidden_stride = stride(op.hidden),
                .out_stride = stride(op.out),
                .vocab_size = dimension(op.table, 0),
                .num_hidden = dimension(op.hidden, 0),
                .hidden_size = dimension(op.table, 1),
                .table_is_bf16 = op.table.dtype() == DType::kBF16,
                .eps = op.eps},
               accesses_of(op));
      },
      [](const MtpInput& op) {
        return activations_are_f32({&op.hidden, &op.out});
      });
}

void add_ropes(OpTable& table, const KernelModule& module) {
  table.add<RopeTable>("cpu", [kernel = module.resolve<RopeTableParams>("rope_table")](CommandList& cmd, const RopeTable& op) {
    kernel(cmd, items(dimension(op.positions, 0)),
           {.positions = pointer<const int32_t>(op.positions),
            .cos_sin = pointer<float>(op.cos_sin),
            .rotary_dim = dimension(op.cos_sin, 1),
            .theta = op.theta},
           accesses_of(op));
  });

  table.add<Rope>(
      "cpu",
      [kernel = module.resolve<RopeParams>("rope")](CommandList& cmd, const Rope& op) {
        kernel(cmd, items(dimension(op.x, 0) * dimension(op.x, 1)),
               {.x = pointer<float>(op.x),
                .cos_sin = pointer<const float>(op.cos_sin),
                .x_stride = stride(op.x),
                .num_heads = dimension(op.x, 1),
                .head_dim = dimension(op.x, 2),
                .rotary_dim = dimension(op.cos_sin, 1)},
               accesses_of(op));
      },
      [](const Rope& op) { return activations_are_f32({&op.x}); });
}

}  // namespace

void add_norm_ops(OpTable& table, const KernelModule& module) {
  add_rms_norms(table, module);
  add_mtp_input(table, module);
  add_ropes(table, module);
}

}  // namespace foretoken::cpu
