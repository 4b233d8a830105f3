// linear, linear_group and linear_silu_mul for prefill, on tensor cores: by cuBLASLt where it is there, else by tiles of our own.
// Both take BF16; activations in float32 and quantised weights are brought there first, in the workspace.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/cublas_lt.h"
#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/kernels/prefill_params.h"
#include "backends/gpu/host/command_list.h"
#include "backends/gpu/ops/weights.h"
#include "core/error.h"
#include "core/ops/linear_group.h"

namespace foretoken::cuda {
namespace {

using gpu::ceil_div;
using gpu::extent;
using gpu::stride;

/// Up to this many rows the kernels that read a weight for a few rows are faster.
constexpr int64_t kFewRows = 16;
/// Likewise of quantised weights, which are written and read again here.
constexpr int64_t kFewRowsOfCodes = 32;
/// Weight rows that are brought to BF16 together: as many as fit, so that their products fill a device.
constexpr int64_t kWidenedBytes = int64_t{192} << 20;
constexpr int64_t kMostWidenedRows = 32768;
constexpr size_t kAlignment = 256;

/// What multiplies.
enum class Engine : uint8_t { kCublasLt, kTiles };

/// One projection, or gate and up.
struct Projection {
  const Tensor& x;
  const LinearWeight& weight;
  const LinearWeight* up;  // null: one projection
  const Tensor& out;
  LinearPrecision precision;

  [[nodiscard]] bool is_quantised() const { return weight.format != WeightFormat::kBF16; }
  [[nodiscard]] bool rounds_x() const { return x.dtype() != DType::kBF16; }
  /// Weight rows that are multiplied by together.
  [[nodiscard]] int64_t slice_rows() const {
    if (!is_quantised()) return weight.out_features();
    const int64_t fitting = kWidenedBytes / (2 * weight.in_features()) / 128 * 128;
    return std::min(weight.out_features(), std::clamp<int64_t>(fitting, 128, kMostWidenedRows));
  }
};

Projection projection_of(const Linear& op) {
  return {.x = op.x, .weight = op.w, .up = nullptr, .out = op.out, .precision = op.precision};
}
Projection projection_of(const LinearSiluMul& op) {
  return {.x = op.x, .weight = op.gate, .up = &op.up, .out = op.out, .precision = op.precision};
}

/// Lays parts of a workspace out one after another.
class Workspace {
 public:
  explicit Workspace(uint64_t address) : next_((address + kAlignment - 1) / kAlignment * kAlignment) {}

  uint64_t take(int64_t bytes) {
    const uint64_t address = next_;
    next_ += (static_cast<uint64_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
    return address;
  }
  [[nodiscard]] uint64_t end() const { return next_; }

 private:
  uint64_t next_;
};

/// Where a projection keeps what it needs in between; 0: it needs no such thing.
struct Scratch {
  uint64_t library = 0;
  uint64_t x = 0;          // [T, K] BF16
  uint64_t weights[2]{};   // [slice, K] BF16, of gate and up
  uint64_t products[2]{};  // [T, slice] F32, likewise

  Scratch(Workspace& workspace, Engine engine, const Projection& p) {
    const int64_t rows = p.x.dim(0);
    if (engine == Engine::kCublasLt) library = workspace.take(CublasLt::kWorkspaceBytes);
    if (p.rounds_x()) x = workspace.take(2 * rows * p.weight.in_features());
    for (size_t i = 0; i < (p.up == nullptr ? 1 : 2); ++i) {
      if (p.is_quantised()) weights[i] = workspace.take(2 * p.slice_rows() * p.weight.in_features());
      if (engine == Engine::kCublasLt && p.up != nullptr) products[i] = workspace.take(4 * rows * p.slice_rows());
    }
  }
};

size_t workspace_bytes(Engine engine, const Projection& p) {
  Workspace workspace(0);
  static_cast<void>(Scratch(workspace, engine, p));
  return workspace.end() == 0 ? 0 : workspace.end() + kAlignment;  // whose start need not be aligned
}

bool is_aligned_output(const Tensor& out) {
  const uint64_t bytes = dtype_bits(out.dtype()) / 8;
  return out.address() % 16 == 0 && stride(out) * bytes % 16 == 0;
}

Availability accepts_both(const Projection& p) {
  if (p.precision != LinearPrecision::kBF16) return Availability::no("for prefill with BF16 activations only");
  for (const LinearWeight* w : {&p.weight, p.up}) {
    if (w == nullptr) continue;
    if (w->format == WeightFormat::kF32) return Availability::no("F32 weights would be rounded");
    if (const Availability aligned = gpu::has_whole_vectors(*w, p.x); !aligned) return aligned;
  }
  if (p.weight.in_features() % kPrefillDepth != 0) return Availability::no("rows of a multiple of 64 weights");
  const int64_t few = p.is_quantised() ? kFewRowsOfCodes : kFewRows;
  if (p.x.dim(0) < few) return Availability::no("for " + std::to_string(few) + " rows or more");
  if (p.x.dim(0) * p.x.row_stride() >= int64_t{1} << 31) return Availability::no("activations of at most 4 GiB");
  return Availability::yes();
}

/// Shares of a projection's launches with `rows` weight rows from `first` on.
struct Slice {
  int64_t first;
  int64_t rows;
};

std::vector<Slice> slices_of(const Projection& p) {
  std::vector<Slice> slices;
  const int64_t rows = p.slice_rows();
  for (int64_t first = 0; first < p.weight.out_features(); first += rows) {
    slices.push_back({first, std::min(rows, p.weight.out_features() - first)});
  }
  return slices;
}

Product product_of(const Projection& p, const Slice& slice) {
  const bool gated = p.up != nullptr;
  return {.num_rows = p.x.dim(0),
          .out_features = slice.rows,
          .in_features = p.weight.in_features(),
          .x_stride = p.rounds_x() ? p.weight.in_features() : p.x.row_stride(),
          .out_stride = gated ? slice.rows : p.out.row_stride(),
          .out_is_bf16 = !gated && p.out.dtype() == DType::kBF16};
}

/// The scales of whole rows that `w` has besides inner ones.
RowScales row_scales(const LinearWeight& w) {
  switch (w.format) {
    case WeightFormat::kFp8Row: {
      const bool is_one = w.scale.shape() == Shape{1};
      return {.scales = w.scale.address(),
              .rows_per_scale = is_one ? std::numeric_limits<uint32_t>::max() : 1,
              .is_bf16 = gpu::is_bf16(w.scale)};
    }
    case WeightFormat::kNvfp4:
      return {.scales = w.global_scale.address(),
              .rows_per_scale = static_cast<uint32_t>(w.out_features()) / extent(w.global_scale, 0),
              .is_bf16 = 0};
    default: return {.scales = 0, .rows_per_scale = 1, .is_bf16 = 0};
  }
}

/// Everything that prefill launches.
class PrefillLauncher {
 public:
  PrefillLauncher(const KernelModule& module, int device)
      : round_(module.resolve<PrefillRoundParams>("prefill_round")),
        gate_(module.resolve<PrefillGateParams>("prefill_gate")),
        library_(device) {
    for (const WeightFormat format : {WeightFormat::kFp8Row, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
      widen_[static_cast<size_t>(format)] = module.resolve<PrefillWidenParams>("prefill_widen_" + gpu::kernel_suffix(format));
    }
    for (const bool gated : {false, true}) {
      const std::string name = gated ? "prefill_silu_mul_" : "prefill_linear_";
      tiles_[gated ? 1 : 0] = {module.resolve<PrefillParams>(name + "large"), module.resolve<PrefillParams>(name + "small")};
    }
  }

  [[nodiscard]] Availability accepts(Engine engine, const Projection& p) {
    if (const Availability both = accepts_both(p); !both) return both;
    if (engine == Engine::kTiles) return Availability::yes();
    if (!is_aligned_output(p.out) || p.weight.out_features() % 8 != 0) {
      return Availability::no("outputs of a multiple of 8 columns, aligned to 16 bytes");
    }
    for (const Slice& slice : slices_of(p)) {
      if (const Availability planned = library_.plan(product_of(p, slice)); !planned) return planned;
    }
    return Availability::yes();
  }

  /// The first engine that accepts; the second's answer where neither does.
  struct Choice {
    Engine engine;
    Availability available;
  };
  [[nodiscard]] Choice choose(const Projection& p) {
    if (Availability library = accepts(Engine::kCublasLt, p); library) return {Engine::kCublasLt, library};
    return {Engine::kTiles, accepts(Engine::kTiles, p)};
  }

  void launch(Engine engine, CommandList& cmd, const Projection& p, const Tensor& workspace, std::string_view op_name,
              std::span<const Access> accesses) {
    Workspace parts(checked_workspace(op_name, workspace, workspace_bytes(engine, p)));
    const Scratch scratch(parts, engine, p);
    const uint64_t x = p.rounds_x() ? round(cmd, p, scratch.x, accesses) : p.x.address();
    for (const Slice& slice : slices_of(p)) {
      // Where no kernel of ours sees the results, the weights take the scales of their rows.
      const bool takes_row_scales = engine == Engine::kCublasLt && p.up == nullptr;
      const uint64_t weight = bf16_rows(cmd, p.weight, slice, takes_row_scales, scratch.weights[0], accesses);
      const uint64_t up = p.up == nullptr ? 0 : bf16_rows(cmd, *p.up, slice, false, scratch.weights[1], accesses);
      if (engine == Engine::kTiles) {
        multiply_tiles(cmd, p, slice, x, weight, up, accesses);
      } else {
        multiply_by_library(cmd, p, slice, x, weight, up, scratch, accesses);
      }
    }
  }

 private:
  uint64_t round(CommandList& cmd, const Projection& p, uint64_t target, std::span<const Access> accesses) const {
    const uint32_t columns = extent(p.x, 1);
    round_(cmd, Grid{ceil_div(columns, kConvertThreads * kConvertElements), extent(p.x, 0)},
           {.x = p.x.address(), .out = target, .x_stride = stride(p.x), .num_columns = columns, .reserved = 0}, accesses);
    return target;
  }

  /// The address of a slice of a weight in BF16: where it lies, or `target`.
  uint64_t bf16_rows(CommandList& cmd, const LinearWeight& w, const Slice& slice, bool takes_row_scales, uint64_t target,
                     std::span<const Access> accesses) const {
    const auto columns = static_cast<uint32_t>(w.in_features());
    if (w.format == WeightFormat::kBF16) return w.weight.address() + static_cast<uint64_t>(slice.first) * columns * 2;
    widen_[static_cast<size_t>(w.format)](
        cmd, Grid{ceil_div(columns, kConvertThreads * kConvertElements), static_cast<uint32_t>(slice.rows)},
        {.weight = gpu::weight_params(w),
         .out = target,
         .first_row = static_cast<uint32_t>(slice.first),
         .in_features = columns,
         .takes_row_scales = takes_row_scales ? 1U : 0U,
         .reserved = 0},
        accesses);
    return target;
  }

  /// The address of column `slice.first` of the output.
  static uint64_t out_address(const Projection& p, const Slice& slice) {
    return p.out.address() + static_cast<uint64_t>(slice.first) * dtype_bits(p.out.dtype()) / 8;
  }

  void multiply_tiles(CommandList& cmd, const Projection& p, const Slice& slice, uint64_t x, uint64_t weight, uint64_t up,
                      std::span<const Access> accesses) const {
    const Product product = product_of(p, slice);
    const uint64_t out = out_address(p, slice);
    const uint64_t pair_bytes = 2 * dtype_bits(p.out.dtype()) / 8;
    const bool stores_pairs = slice.rows % 2 == 0 && stride(p.out) % 2 == 0 && out % pair_bytes == 0;
    const PrefillParams params{.x = x,
                               .weight = weight,
                               .second = up,
                               .out = out,
                               .scales = row_scales(p.weight),
                               .second_scales = p.up == nullptr ? RowScales{} : row_scales(*p.up),
                               .x_stride = static_cast<uint64_t>(product.x_stride),
                               .out_stride = stride(p.out),
                               .num_rows = extent(p.x, 0),
                               .in_features = static_cast<uint32_t>(product.in_features),
                               .out_features = static_cast<uint32_t>(slice.rows),
                               .first_row = static_cast<uint32_t>(slice.first),
                               .out_is_bf16 = gpu::is_bf16(p.out),
                               .stores_pairs = stores_pairs ? 1U : 0U};
    const uint32_t gates = p.up == nullptr ? 1 : 2;
    const auto grid_of = [&](const PrefillTile& tile) {
      return Grid{.x = ceil_div(params.num_rows, tile.rows),
                  .y = ceil_div(params.out_features, tile.columns / gates),
                  .z = 1,
                  .group_memory = tile.group_memory};
    };
    const Grid large = grid_of(kLargePrefillTile);
    const bool is_enough = large.x * large.y >= cmd.capabilities().num_compute_units;
    tiles_[gates - 1][is_enough ? 0 : 1](cmd, is_enough ? large : grid_of(kSmallPrefillTile), params, accesses);
  }

  void multiply_by_library(CommandList& cmd, const Projection& p, const Slice& slice, uint64_t x, uint64_t weight, uint64_t up,
                           const Scratch& scratch, std::span<const Access> accesses) {
    auto* list = dynamic_cast<RuntimeCommandList*>(&cmd);
    if (list == nullptr) throw Error(ErrorCode::kInvalidArgument, "a product by cuBLASLt on a list of another backend");
    const Product product = product_of(p, slice);
    const auto multiply = [&](uint64_t by, uint64_t out) {
      list->call_library("cublasLtMatmul",
                         [&](cudaStream_t stream) { library_.enqueue(stream, product, x, by, out, scratch.library); });
    };
    if (p.up == nullptr) {
      multiply(weight, out_address(p, slice));
      return;
    }
    multiply(weight, scratch.products[0]);
    multiply(up, scratch.products[1]);
    const auto columns = static_cast<uint32_t>(slice.rows);
    gate_(cmd, Grid{ceil_div(columns, kConvertThreads * 4), extent(p.x, 0)},
          {.gate = scratch.products[0],
           .up = scratch.products[1],
           .out = out_address(p, slice),
           .gate_scales = row_scales(p.weight),
           .up_scales = row_scales(*p.up),
           .out_stride = stride(p.out),
           .num_columns = columns,
           .first_row = static_cast<uint32_t>(slice.first),
           .out_is_bf16 = gpu::is_bf16(p.out),
           .reserved = 0},
          accesses);
  }

  Kernel<PrefillRoundParams> round_;
  Kernel<PrefillGateParams> gate_;
  std::array<Kernel<PrefillWidenParams>, 5> widen_;
  std::array<std::array<Kernel<PrefillParams>, 2>, 2> tiles_;  // [gated][large, small]
  CublasLt library_;
};

template <class Op>
void add_engine(OpTable& table, const std::shared_ptr<PrefillLauncher>& launcher, std::string name, Engine engine) {
  table.add<Op>(
      std::move(name),
      [launcher, engine](CommandList& cmd, const Op& op) {
        launcher->launch(engine, cmd, projection_of(op), op.workspace, Op::schema().name(), accesses_of(op));
      },
      [launcher, engine](const Op& op) {
        if constexpr (std::is_same_v<Op, LinearSiluMul>) {
          if (const Availability same = gpu::gate_and_up_agree(op); !same) return same;
        }
        return launcher->accepts(engine, projection_of(op));
      },
      [engine](const Op& op) { return workspace_bytes(engine, projection_of(op)); });
}

/// Each projection by whichever engine takes it. A group of which one is taken by neither is left to others as a whole.
void add_group(OpTable& table, const std::shared_ptr<PrefillLauncher>& launcher) {
  table.add<LinearGroup>(
      "prefill",
      [launcher](CommandList& cmd, const LinearGroup& op) {
        for (size_t i = 0; i < op.num_projections(); ++i) {
          const Linear linear = op.projection(i);
          const Projection projection = projection_of(linear);
          launcher->launch(launcher->choose(projection).engine, cmd, projection, op.workspace, "linear_group",
                           accesses_of(linear));
        }
      },
      [launcher](const LinearGroup& op) {
        for (size_t i = 0; i < op.num_projections(); ++i) {
          const Linear linear = op.projection(i);
          if (Availability available = launcher->choose(projection_of(linear)).available; !available) return available;
        }
        return Availability::yes();
      },
      [launcher](const LinearGroup& op) {
        size_t bytes = 0;
        for (size_t i = 0; i < op.num_projections(); ++i) {
          const Linear linear = op.projection(i);
          const Projection projection = projection_of(linear);
          bytes = std::max(bytes, workspace_bytes(launcher->choose(projection).engine, projection));
        }
        return bytes;
      });
}

}  // namespace

void add_prefill_ops(OpTable& table, const KernelModule& module, int device) {
  const auto launcher = std::make_shared<PrefillLauncher>(module, device);
  add_engine<Linear>(table, launcher, "cublaslt", Engine::kCublasLt);
  add_engine<Linear>(table, launcher, "mma", Engine::kTiles);
  add_engine<LinearSiluMul>(table, launcher, "cublaslt", Engine::kCublasLt);
  add_engine<LinearSiluMul>(table, launcher, "mma", Engine::kTiles);
  add_group(table, launcher);
}

}  // namespace foretoken::cuda
