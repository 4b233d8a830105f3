// rms_norm, add_rms_norm, mtp_input, rope_table, rope.
#include "backends/gpu/gpu_ops.h"
#include "backends/gpu/norm_params.h"
#include "backends/gpu/ops/operands.h"
#include "core/ops/mtp_input.h"
#include "core/ops/rms_norm.h"
#include "core/ops/rope.h"

namespace foretoken::gpu {
namespace {

/// Whether rms_norm_quads can read or write the tensor.
bool has_quads(const Tensor& tensor) { return tensor.address() % dtype_bytes(tensor.dtype(), 4) == 0 && stride(tensor) % 4 == 0; }

/// The kernels of rms_norm and add_rms_norm; which of them it is depends on the width and the alignment of rows alone.
class NormKernels {
 public:
  explicit NormKernels(const KernelModule& module)
      : any_(module.resolve<RmsNormParams>("rms_norm")), quads_(module.resolve<RmsNormParams>("rms_norm_quads")) {}

  /// `residual` may be absent.
  void launch(CommandList& cmd, const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& out, float eps,
              std::span<const Access> accesses) const {
    const RmsNormParams params{.x = x.address(),
                               .residual = residual.address(),
                               .weight = weight.address(),
                               .out = out.address(),
                               .x_stride = stride(x),
                               .residual_stride = stride(residual),
                               .out_stride = stride(out),
                               .hidden_size = extent(x, 1),
                               .eps = eps,
                               .x_is_bf16 = is_bf16(x),
                               .residual_is_bf16 = residual ? is_bf16(residual) : 0U,
                               .out_is_bf16 = is_bf16(out),
                               .reserved = 0};
    const bool in_quads = params.hidden_size % 4 == 0 && params.hidden_size <= kMaxQuadRow && has_quads(x) &&
                          weight.address() % (4 * sizeof(float)) == 0 && has_quads(out) && (!residual || has_quads(residual));
    (in_quads ? quads_ : any_)(cmd, Grid{extent(x, 0)}, params, accesses);
  }

 private:
  Kernel<RmsNormParams> any_;
  Kernel<RmsNormParams> quads_;
};

void add_rms_norms(OpTable& table, const KernelModule& module) {
  const NormKernels kernels(module);
  table.add<RmsNorm>("gpu", [kernels](CommandList& cmd, const RmsNorm& op) {
    kernels.launch(cmd, op.x, {}, op.weight, op.out, op.eps, accesses_of(op));
  });
  table.add<AddRmsNorm>("gpu", [kernels](CommandList& cmd, const AddRmsNorm& op) {
    kernels.launch(cmd, op.x, op.residual, op.weight, op.out, op.eps, accesses_of(op));
  });
}

void add_mtp_input(OpTable& table, const KernelModule& module) {
  table.add<MtpInput>("gpu", [kernel = module.resolve<MtpInputParams>("mtp_input")](CommandList& cmd, const MtpInput& op) {
    kernel(cmd, Grid{extent(op.ids, 0), 2},
           {.ids = op.ids.address(),
            .table = op.table.address(),
            .hidden = op.hidden.address(),
            .hidden_rows = op.hidden_rows.address(),
            .embedding_norm = op.embedding_norm.address(),
            .hidden_norm = op.hidden_norm.address(),
            .out = op.out.address(),
            .hidden_stride = stride(op.hidden),
            .out_stride = stride(op.out),
            .vocab_size = extent(op.table, 0),
            .num_hidden = extent(op.hidden, 0),
            .hidden_size = extent(op.table, 1),
            .eps = op.eps,
            .table_is_bf16 = is_bf16(op.table),
            .hidden_is_bf16 = is_bf16(op.hidden),
            .out_is_bf16 = is_bf16(op.out),
            .reserved = 0},
           accesses_of(op));
  });
}

void add_ropes(OpTable& table, const KernelModule& module) {
  table.add<RopeTable>("gpu", [kernel = module.resolve<RopeTableParams>("rope_table")](CommandList& cmd, const RopeTable& op) {
    const uint32_t num_rows = extent(op.positions, 0);
    const uint32_t rotary_dim = extent(op.cos_sin, 1);
    kernel(cmd, Grid{ceil_div(num_rows * rotary_dim / 2, kHeadThreads)},
           {.positions = op.positions.address(),
            .cos_sin = op.cos_sin.address(),
            .theta = op.theta,
            .num_rows = num_rows,
            .rotary_dim = rotary_dim},
           accesses_of(op));
  });

  table.add<Rope>(
      "gpu",
      [kernel = module.resolve<RopeParams>("rope")](CommandList& cmd, const Rope& op) {
        kernel(cmd, Grid{extent(op.x, 1), extent(op.x, 0)},
               {.x = op.x.address(),
                .cos_sin = op.cos_sin.address(),
                .x_stride = stride(op.x),
                .head_dim = extent(op.x, 2),
                .rotary_dim = extent(op.cos_sin, 1),
                .x_is_bf16 = is_bf16(op.x),
                .reserved = 0},
               accesses_of(op));
      },
      [](const Rope& op) { return dim_at_most(op.cos_sin, 1, kMaxHeadDim, "rotations"); });
}

}  // namespace

void add_norm_ops(OpTable& table, const KernelModule& module) {
  add_rms_norms(table, module);
  add_mtp_input(table, module);
  add_ropes(table, module);
}

}  // namespace foretoken::gpu
