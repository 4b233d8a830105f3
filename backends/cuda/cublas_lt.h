// The matrix products of the cuBLASLt library, which is loaded while the program runs: it need not be there.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/capabilities.h"

namespace foretoken::cuda {

/// out[t, n] = sum_k x[t, k] * weight[n, k] with BF16 operands and float32 sums. Strides count elements.
struct Product {
  int64_t num_rows;      // T
  int64_t out_features;  // N
  int64_t in_features;   // K
  int64_t x_stride;
  int64_t out_stride;
  bool out_is_bf16;  // else float32

  auto operator<=>(const Product&) const = default;
};

/// The plans of one device. Threads may share it.
class CublasLt {
 public:
  /// Scratch of every product.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  /// Loads nothing yet.
  explicit CublasLt(int device);
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt();

  /// Whether the library can be used; loads it when it is asked for the first time in a process. No with the reason: turned off
  /// by FORETOKEN_CUDA_CUBLASLT=0, not found, too old, not in this build.
  [[nodiscard]] static Availability availability();
  /// "13.1.0"; empty where the library is absent.
  [[nodiscard]] static std::string version();

  /// Whether the library is there and has an algorithm for `product`; the plan is kept. A plan is the library's first choice
  /// among algorithms whose sums have one order, so equal products have equal bits. Throws DeviceError.
  [[nodiscard]] Availability plan(const Product& product);

  /// Puts a product that `plan` has said yes to on `stream`. Operands begin at multiples of 16 bytes; `workspace` is
  /// kWorkspaceBytes of device memory at a multiple of 256. Throws DeviceError.
  void enqueue(cudaStream_t stream, const Product& product, uint64_t x, uint64_t weight, uint64_t out, uint64_t workspace);

 private:
  class Plans;
  std::unique_ptr<Plans> plans_;
};

}  // namespace foretoken::cuda
