// linear and linear_silu_mul with activations rounded to BF16, on AMX tiles. Results do not depend on how the work is cut, nor on
// how many rows a call has.
#include <algorithm>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/prefill_amx_params.h"
#include "backends/cpu/ops/linear_support.h"
#include "core/ops/linear.h"

namespace foretoken::cpu {
namespace {

/// Rows are padded to pairs of tiles, so fewer than half of that are better off with the exact kernels.
constexpr int64_t kMinRows = 16;
constexpr uint32_t kRowAlignment = 2 * kAmxTile;
/// Weights of one item, which all row blocks of a call read again: half of a 1 MiB second-level cache.
constexpr uint32_t kSliceBytes = 512 * 1024;

struct AmxKernels {
  Kernel<AmxPackParams> pack;
  Kernel<AmxLinearParams> linear;

  explicit AmxKernels(const KernelModule& module)
      : pack(module.resolve_optional<AmxPackParams>("amx_pack")),
        linear(module.resolve_optional<AmxLinearParams>("amx_linear")) {}

  [[nodiscard]] Availability available() const {
    return pack && linear ? Availability::yes() : Availability::no("this CPU has no AMX-BF16 tiles, or a lower set is forced");
  }
};

uint32_t num_blocks(const Tensor& x) { return ceil_div(extent(x, 0), kRowAlignment) * (kRowAlignment / kAmxTile); }

size_t packed_bytes(const Tensor& x) { return size_t{num_blocks(x)} * kAmxTile * extent(x, 1) * sizeof(uint16_t); }

Availability accepts(const Availability& kernels, LinearPrecision precision, const Tensor& x, const Tensor& out,
                     const LinearWeight& w) {
  if (precision != LinearPrecision::kBF16) return Availability::no("the call asks for exact activations");
  if (!kernels) return kernels;
  const Availability f32 = activations_are_f32({&x, &out});
  if (!f32) return f32;
  if (w.format != WeightFormat::kBF16) return Availability::no("weights are " + std::string(to_string(w.format)) + ", not bf16");
  if (w.in_features() % kAmxDepth != 0 || w.out_features() % kAmxTile != 0) {
    return Availability::no("needs multiples of 32 inputs and 16 outputs");
  }
  if (x.dim(0) < kMinRows) return Availability::no("fewer than " + std::to_string(kMinRows) + " rows");
  return Availability::yes();
}

/// Multiplies x by `weight` (and `up`, when there is one).
void launch(CommandList& cmd, const AmxKernels& kernels, const Tensor& x, const LinearWeight& weight, const LinearWeight* up,
            const Tensor& out, uint64_t workspace, std::span<const Access> accesses) {
  const uint32_t rows = extent(x, 0);
  const uint32_t in_features = extent(x, 1);
  const uint32_t out_features = extent(out, 1);
  const uint32_t column_bytes = in_features * (up == nullptr ? 2 : 4);  // BF16 of one weight or of two
  const uint32_t slice_columns = std::clamp<uint32_t>(kSliceBytes / column_bytes / 32 * 32, 32, 128);
  kernels.pack(cmd, Grid{num_blocks(x)},
               {.x = x.address(), .packed = workspace, .x_stride = stride(x), .num_rows = rows, .in_features = in_features},
               accesses);
  kernels.linear(cmd, Grid{ceil_div(out_features, slice_columns)},
                 {.packed = workspace,
                  .weight = weight.weight.address(),
                  .up = up == nullptr ? 0 : up->weight.address(),
                  .out = out.address(),
                  .out_stride = stride(out),
                  .num_rows = rows,
                  .in_features = in_features,
                  .out_features = out_features,
                  .slice_columns = slice_columns},
                 accesses);
}

}  // namespace

void add_amx_ops(OpTable& table, const KernelModule& module) {
  const AmxKernels kernels(module);
  const Availability available = kernels.available();
  table.add<Linear>(
      "amx",
      [kernels](CommandList& cmd, const Linear& op) {
        const uint64_t workspace = checked_workspace("linear", op.workspace, packed_bytes(op.x));
        launch(cmd, kernels, op.x, op.w, nullptr, op.out, workspace, accesses_of(op));
      },
      [available](const Linear& op) { return accepts(available, op.precision, op.x, op.out, op.w); },
      [](const Linear& op) { return packed_bytes(op.x); });
  table.add<LinearSiluMul>(
      "amx",
      [kernels](CommandList& cmd, const LinearSiluMul& op) {
        const uint64_t workspace = checked_workspace("linear_silu_mul", op.workspace, packed_bytes(op.x));
        launch(cmd, kernels, op.x, op.gate, &op.up, op.out, workspace, accesses_of(op));
      },
      [available](const LinearSiluMul& op) { return accepts(available, op.precision, op.x, op.out, op.gate); },
      [](const LinearSiluMul& op) { return packed_bytes(op.x); });
}

}  // namespace foretoken::cpu
