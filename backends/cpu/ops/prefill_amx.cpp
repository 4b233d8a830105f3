// linear and linear_silu_mul with activations rounded to BF16, on AMX tiles. Results do not depend on how the work is cut, nor on
// how many rows a call has.
#include <algorithm>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/prefill_amx_params.h"
#include "backends/cpu/ops/linear_support.h"
#include "backends/cpu/ops/weight_panels.h"
#include "core/ops/linear.h"

namespace foretoken::cpu {
namespace {

/// Rows are padded to pairs of tiles, so fewer than half of that are better off with the exact kernels.
constexpr int64_t kMinRows = 16;
constexpr uint32_t kRowAlignment = 2 * kAmxTile;
/// Columns of an item: its weights are read again for all rows of a call, from the second-level cache.
constexpr uint32_t kSliceColumns = 64;
/// The next item's weights are fetched ahead where they, those at work and the activations fit a second-level cache of 2 MiB.
constexpr size_t kPrefetchActivationBytes = size_t{1} << 20;
/// Lines that the memory delivers while two by two tiles are multiplied.
constexpr uint32_t kMaxPrefetchLines = 4;

struct AmxKernels {
  Kernel<AmxPackParams> pack;
  Kernel<AmxLinearParams> linear;
  WeightPanels panels;

  explicit AmxKernels(const KernelModule& module)
      : pack(module.resolve_optional<AmxPackParams>("amx_pack")),
        linear(module.resolve_optional<AmxLinearParams>("amx_linear")),
        panels(module) {}

  [[nodiscard]] Availability available() const {
    return pack && linear ? Availability::yes() : Availability::no("this CPU has no AMX-BF16 tiles, or a lower set is forced");
  }
};

uint32_t num_blocks(const Tensor& x) { return ceil_div(extent(x, 0), kRowAlignment) * (kRowAlignment / kAmxTile); }

size_t packed_bytes(const Tensor& x) { return size_t{num_blocks(x)} * kAmxTile * extent(x, 1) * sizeof(uint16_t); }

size_t workspace_bytes(const Tensor& x, const LinearWeight& w, size_t num_weights) {
  return packed_bytes(x) + num_weights * WeightPanels::bytes(w);
}

Availability accepts(const Availability& kernels, LinearPrecision precision, const Tensor& x, const Tensor& out,
                     const LinearWeight& w) {
  if (precision != LinearPrecision::kBF16) return Availability::no("the call asks for exact activations");
  if (!kernels) return kernels;
  const Availability f32 = activations_are_f32({&x, &out});
  if (!f32) return f32;
  if (!WeightPanels::takes(w.format)) return Availability::no(std::string(to_string(w.format)) + " weights stay exact");
  if (w.in_features() % kAmxDepth != 0 || w.out_features() % kAmxTile != 0) {
    return Availability::no("needs multiples of 32 inputs and 16 outputs");
  }
  if (x.dim(0) < kMinRows) return Availability::no("fewer than " + std::to_string(kMinRows) + " rows");
  return Availability::yes();
}

/// Lines of the next item that each step of an item fetches, so that all of them are there in time; 0 leaves it to the CPU.
uint32_t prefetch_lines(const Tensor& x) {
  if (packed_bytes(x) > kPrefetchActivationBytes) return 0;
  constexpr size_t kLinesOfAllSteps = 1024;  // of an item that one row of x takes
  return std::min(kMaxPrefetchLines, static_cast<uint32_t>(ceil_div(kLinesOfAllSteps, num_blocks(x) * kAmxTile)));
}

/// Multiplies x by each of `weights` (one, or gate and up) and writes `out`.
void launch(CommandList& cmd, const AmxKernels& kernels, const Tensor& x, std::initializer_list<const LinearWeight*> weights,
            const Tensor& out, uint64_t workspace, std::span<const Access> accesses) {
  const uint32_t rows = extent(x, 0);
  const uint32_t in_features = extent(x, 1);
  kernels.pack(cmd, Grid{num_blocks(x)},
               {.x = x.address(), .packed = workspace, .x_stride = stride(x), .num_rows = rows, .in_features = in_features},
               accesses);
  kernels.panels.for_each(cmd, weights, workspace + packed_bytes(x), accesses,
                          [&](uint32_t first, uint32_t count, const std::array<WeightPanel, 2>& panels) {
                            kernels.linear(cmd, Grid{ceil_div(count, kSliceColumns)},
                                           {.packed = workspace,
                                            .weight = panels[0].rows,
                                            .up = panels[1].rows,
                                            .weight_scale = panels[0].row_scale,
                                            .up_scale = panels[1].row_scale,
                                            .out = out.address() + first * sizeof(float),
                                            .out_stride = stride(out),
                                            .num_rows = rows,
                                            .in_features = in_features,
                                            .out_features = count,
                                            .slice_columns = kSliceColumns,
                                            .prefetch_lines = prefetch_lines(x),
                                            .reserved = 0},
                                           accesses);
                          });
}

}  // namespace

void add_amx_ops(OpTable& table, const KernelModule& module) {
  const AmxKernels kernels(module);
  const Availability available = kernels.available();
  table.add<Linear>(
      "amx",
      [kernels](CommandList& cmd, const Linear& op) {
        const uint64_t workspace = checked_workspace("linear", op.workspace, workspace_bytes(op.x, op.w, 1));
        launch(cmd, kernels, op.x, {&op.w}, op.out, workspace, accesses_of(op));
      },
      [available](const Linear& op) { return accepts(available, op.precision, op.x, op.out, op.w); },
      [](const Linear& op) { return workspace_bytes(op.x, op.w, 1); });
  table.add<LinearSiluMul>(
      "amx",
      [kernels](CommandList& cmd, const LinearSiluMul& op) {
        const uint64_t workspace = checked_workspace("linear_silu_mul", op.workspace, workspace_bytes(op.x, op.gate, 2));
        launch(cmd, kernels, op.x, {&op.gate, &op.up}, op.out, workspace, accesses_of(op));
      },
      [available](const LinearSiluMul& op) { return accepts(available, op.precision, op.x, op.out, op.gate); },
      [](const LinearSiluMul& op) { return workspace_bytes(op.x, op.gate, 2); });
}

}  // namespace foretoken::cpu
