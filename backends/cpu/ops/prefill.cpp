// linear and linear_silu_mul with activations rounded to BF16, on matrix hardware: out^T = W x^T, so that the weights are read
// where the checkpoint has them, while the few activations are packed for each call. Work is cut by N, K and T only, so the same
// call gives the same bits on any number of threads.
#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/linear_prefill_params.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/ops/linear_support.h"
#include "backends/cpu/ops/weight_panels.h"
#include "core/ops/linear.h"

namespace foretoken::cpu {
namespace {

/// Chunks are padded to 32 rows, and the exact kernels take about as long for 16 as the padded product does.
constexpr int64_t kMinRows = 24;

struct PrefillKernels {
  Kernel<PrefillRoundParams> round;
  Kernel<Bf16MatmulParams> pack;
  Kernel<Bf16MatmulParams> multiply;
  Kernel<PrefillStoreParams> store;
  WeightPanels panels;

  explicit PrefillKernels(const KernelModule& module)
      : round(module.resolve_optional<PrefillRoundParams>("prefill_round")),
        pack(module.resolve_optional<Bf16MatmulParams>("onednn_pack")),
        multiply(module.resolve_optional<Bf16MatmulParams>("onednn_matmul")),
        store(module.resolve_optional<PrefillStoreParams>("prefill_store")),
        panels(module) {}

  [[nodiscard]] Availability available() const {
    const Availability onednn = onednn_bf16();
    if (!onednn) return onednn;
    return round && pack && multiply && store ? Availability::yes() : Availability::no("needs the avx512 kernels");
  }
};

size_t align_up(size_t value, size_t alignment) { return (value + alignment - 1) / alignment * alignment; }

/// Sizes of the product of x with `num_columns` rows of a weight, and where its parts lie in the workspace.
struct Plan {
  uint32_t rows, padded_rows, in_features, out_features, slice_rows, num_slices, num_chunks;
  size_t packed_offset, product_bytes;
  size_t packed_stride = 0;
  size_t product_offset = 0;

  Plan(const Tensor& x, uint32_t num_columns)
      : rows(extent(x, 0)),
        padded_rows(ceil_div(rows, kPrefillRowAlignment) * kPrefillRowAlignment),
        in_features(extent(x, 1)),
        out_features(num_columns),
        // Larger slices are faster on one core; narrow layers are cut finer, for more threads.
        slice_rows(out_features <= 1024 ? 64 : 128),
        num_slices(ceil_div(out_features, slice_rows)),
        num_chunks(ceil_div(padded_rows, kPrefillChunkRows)),
        packed_offset(align_up(size_t{padded_rows} * in_features * sizeof(uint16_t), 64)),
        product_bytes(align_up(size_t{padded_rows} * out_features * sizeof(float), 64)) {
    packed_stride = align_up(std::max(packed_bytes(matmul(0, 0)), packed_bytes(matmul(0, num_chunks - 1))), 64);
    product_offset = packed_offset + packed_stride * num_chunks;
  }

  [[nodiscard]] const Bf16Matmul& matmul(uint32_t slice, uint32_t chunk) const {
    return bf16_matmul(std::min(slice_rows, out_features - slice * slice_rows), in_features,
                       std::min(kPrefillChunkRows, padded_rows - chunk * kPrefillChunkRows));
  }
  [[nodiscard]] size_t panel_offset(size_t num_products) const { return product_offset + num_products * product_bytes; }

  [[nodiscard]] Bf16MatmulParams matmul_params(uint64_t workspace) const {
    Bf16MatmulParams params{.matmuls = {},
                            .x = workspace,
                            .packed = workspace + packed_offset,
                            .packed_stride = packed_stride,
                            .weight = 0,
                            .product = 0,
                            .in_features = in_features,
                            .out_features = out_features,
                            .slice_rows = slice_rows,
                            .num_slices = num_slices,
                            .num_chunks = num_chunks,
                            .reserved = 0};
    for (const bool last_slice : {false, true}) {
      for (const bool last_chunk : {false, true}) {
        const Bf16Matmul& chosen = matmul(last_slice ? num_slices - 1 : 0, last_chunk ? num_chunks - 1 : 0);
        params.matmuls[last_slice][last_chunk] = reinterpret_cast<uint64_t>(&chosen);
      }
    }
    return params;
  }
};

/// Rows in front, then packed chunks, products, and panels of quantised weights. The first panel is the largest, so its plan has
/// room for all.
size_t workspace_bytes(const Tensor& x, const LinearWeight& w, size_t num_weights) {
  return Plan(x, WeightPanels::rows(w)).panel_offset(num_weights) + num_weights * WeightPanels::bytes(w);
}

void pack(CommandList& cmd, const PrefillKernels& kernels, const Plan& plan, const Tensor& x, uint64_t workspace,
          std::span<const Access> accesses) {
  const PrefillRoundParams round{
      .x = x.address(), .out = workspace, .x_stride = stride(x), .num_rows = plan.rows, .in_features = plan.in_features};
  kernels.round(cmd, Grid{plan.padded_rows}, round, accesses);
  kernels.pack(cmd, Grid{plan.num_chunks}, plan.matmul_params(workspace), accesses);
}

/// Multiplies the packed rows by BF16 weights (one, or gate and up) and writes columns of the output that start at `out`.
void multiply(CommandList& cmd, const PrefillKernels& kernels, const Plan& plan, std::span<const WeightPanel> weights,
              uint64_t out, uint64_t out_stride, uint64_t workspace, std::span<const Access> accesses) {
  PrefillStoreParams store{.product = workspace + plan.product_offset,
                           .up = 0,
                           .scale = weights.front().row_scale,
                           .up_scale = weights.back().row_scale,
                           .out = out,
                           .out_stride = out_stride,
                           .num_rows = plan.rows,
                           .padded_rows = plan.padded_rows,
                           .out_features = plan.out_features,
                           .reserved = 0};
  Bf16MatmulParams params = plan.matmul_params(workspace);
  params.product = store.product;
  for (const WeightPanel& weight : weights) {
    params.weight = weight.rows;
    kernels.multiply(cmd, Grid{plan.num_slices * plan.num_chunks}, params, accesses);
    if (params.product != store.product) store.up = params.product;
    params.product += plan.product_bytes;
  }
  kernels.store(cmd, Grid{plan.num_chunks * ceil_div(plan.out_features, kPrefillStoreColumns)}, store, accesses);
}

/// Multiplies x by each of `weights` (one, or gate and up) and writes `out`.
void launch(CommandList& cmd, const PrefillKernels& kernels, const Tensor& x, std::initializer_list<const LinearWeight*> weights,
            const Tensor& out, uint64_t workspace, std::span<const Access> accesses) {
  const Plan largest(x, WeightPanels::rows(**weights.begin()));
  pack(cmd, kernels, largest, x, workspace, accesses);
  kernels.panels.for_each(cmd, weights, workspace + largest.panel_offset(weights.size()), accesses,
                          [&](uint32_t first, uint32_t count, const std::array<WeightPanel, 2>& panels) {
                            const Plan plan = count == largest.out_features ? largest : Plan(x, count);
                            multiply(cmd, kernels, plan, std::span(panels).first(weights.size()),
                                     out.address() + first * sizeof(float), stride(out), workspace, accesses);
                          });
}

Availability accepts(const Availability& kernels, LinearPrecision precision, const Tensor& x, const Tensor& out,
                     WeightFormat format) {
  if (precision != LinearPrecision::kBF16) return Availability::no("the call asks for exact activations");
  if (!kernels) return kernels;
  const Availability f32 = activations_are_f32({&x, &out});
  if (!f32) return f32;
  if (!WeightPanels::takes(format)) return Availability::no(std::string(to_string(format)) + " weights stay exact");
  if (x.dim(0) < kMinRows) return Availability::no("fewer than " + std::to_string(kMinRows) + " rows");
  return Availability::yes();
}

}  // namespace

void add_prefill_ops(OpTable& table, const KernelModule& module) {
  const PrefillKernels kernels(module);
  const Availability available = kernels.available();
  table.add<Linear>(
      "onednn",
      [kernels](CommandList& cmd, const Linear& op) {
        const uint64_t workspace = checked_workspace("linear", op.workspace, workspace_bytes(op.x, op.w, 1));
        launch(cmd, kernels, op.x, {&op.w}, op.out, workspace, accesses_of(op));
      },
      [available](const Linear& op) { return accepts(available, op.precision, op.x, op.out, op.w.format); },
      [](const Linear& op) { return workspace_bytes(op.x, op.w, 1); });
  table.add<LinearSiluMul>(
      "onednn",
      [kernels](CommandList& cmd, const LinearSiluMul& op) {
        const uint64_t workspace = checked_workspace("linear_silu_mul", op.workspace, workspace_bytes(op.x, op.gate, 2));
        launch(cmd, kernels, op.x, {&op.gate, &op.up}, op.out, workspace, accesses_of(op));
      },
      [available](const LinearSiluMul& op) { return accepts(available, op.precision, op.x, op.out, op.gate.format); },
      [](const LinearSiluMul& op) { return workspace_bytes(op.x, op.gate, 2); });
}

}  // namespace foretoken::cpu
