// Times one operator that reads weights, over random weights that no cache holds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "core/linear_weight.h"

namespace foretoken::cli {

/// What `bench kernels` can time. Moe: both projections of the routed experts.
enum class KernelOp : uint8_t { kLinear, kLinearArgmax, kLinearSiluMul, kMoe };
inline constexpr std::array<std::string_view, 4> kKernelOpNames{"linear", "linear_argmax", "linear_silu_mul", "moe"};

/// An operator over a weight [rows_out, columns], or over experts: gate and up [rows_out, columns], down [columns, rows_out].
struct KernelShape {
  KernelOp op = KernelOp::kLinear;
  int64_t rows_out = 0;
  int64_t columns = 0;
  int64_t num_experts = 0;          // moe only
  int64_t num_experts_per_tok = 0;  // moe only

  /// "17408x5120", "64x512x2048, top 8".
  [[nodiscard]] std::string to_string() const;
};

/// Time of one call over `rows` rows; or why there is none.
struct KernelTiming {
  int64_t rows = 0;
  std::string unavailable;  // the device's reason; the rest is 0 then
  uint64_t bytes = 0;       // of weights and scales that one call must read
  double p10_us = 0.0;
  double median_us = 0.0;
  double p90_us = 0.0;
};

struct KernelBenchOptions {
  uint64_t min_bytes = 0;  // weights that calls walk through before the first is read again
  int64_t samples = 15;
  DType activations = DType::kF32;  // of the operator's inputs, and of outputs that feed a linear layer
};

/// Times one operator over one weight in one format: the weight is made once, copies of it are walked through by one Program, and
/// a sample is the time of that Program divided by its calls. Owns the weights.
class KernelBench {
 public:
  /// Makes the weights. Throws OutOfMemory; Unsupported when the device cannot make this format.
  KernelBench(GpuBackend& backend, Stream& stream, const KernelShape& shape, WeightFormat format,
              const KernelBenchOptions& options);
  ~KernelBench();
  KernelBench(const KernelBench&) = delete;
  KernelBench& operator=(const KernelBench&) = delete;

  [[nodiscard]] KernelTiming measure(int64_t rows);

 private:
  struct Work;
  struct WeightPair {
    LinearWeight first;   // the weight, gate, or stacked gate and up
    LinearWeight second;  // up, or stacked down; absent for the others
  };

  void make_weights();
  void copy_weights(const WeightPair& original);
  [[nodiscard]] LinearWeight make_weight(const Shape& shape, int64_t row_groups);
  [[nodiscard]] std::unique_ptr<Work> make_work(int64_t rows) const;

  GpuBackend& backend_;
  Stream& stream_;
  KernelShape shape_;
  WeightFormat format_;
  KernelBenchOptions options_;
  uint64_t next_tensor_id_ = 0;
  std::vector<Buffer> memory_;
  std::vector<WeightPair> weights_;
};

}  // namespace foretoken::cli
