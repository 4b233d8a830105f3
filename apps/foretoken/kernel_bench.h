// Times one operator that reads weights, over random weights that no cache holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/foretoken/kernel_calls.h"
#include "apps/foretoken/spread.h"

namespace foretoken::cli {

/// Time of one call over `rows` rows by one implementation; or why there is none.
struct KernelTiming {
  int64_t rows = 0;
  std::string implementation;  // empty: none
  bool rounds_activations = false;
  std::string unavailable;  // the device's reasons; the rest is 0 then
  uint64_t bytes = 0;       // of weights and scales that one call must read
  Spread us;
};

struct KernelBenchOptions {
  uint64_t min_bytes = 0;  // weights that calls walk through before the first is read again
  size_t min_calls = 1;    // of one Program, so that what a replay costs by itself hardly counts
  int64_t samples = 15;
  DType activations = DType::kF32;  // of the operator's inputs, and of outputs that feed a linear layer
  std::string implementation;       // the only one to time; empty: all
};

/// Times one operator over one weight in one format: the weight is made once, copies of it are walked through by one Program, and
/// over again where they are few; a sample is the time of that Program divided by its calls. Owns the weights.
class KernelBench {
 public:
  /// Makes the weights. Throws OutOfMemory; Unsupported when the device cannot make this format.
  KernelBench(GpuBackend& backend, Stream& stream, const KernelShape& shape, WeightFormat format, KernelBenchOptions options);

  /// The implementations that take the operands, best first; one entry that says why when there is none.
  [[nodiscard]] std::vector<KernelTiming> measure(int64_t rows);

 private:
  void make_weights();
  void copy_weights(const KernelWeights& original);
  [[nodiscard]] LinearWeight make_weight(const Shape& shape, int64_t row_groups);
  [[nodiscard]] Spread time_calls(const KernelVariant& variant);

  GpuBackend& backend_;
  Stream& stream_;
  KernelShape shape_;
  WeightFormat format_;
  KernelBenchOptions options_;
  uint64_t next_tensor_id_ = 0;
  std::vector<Buffer> memory_;
  std::vector<KernelWeights> weights_;
};

}  // namespace foretoken::cli
