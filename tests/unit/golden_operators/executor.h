// Runs operators on host arrays: through the references, or on the CPU at one instruction-set level.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/reference/reference.h"
#include "backends/ops.h"

namespace foretoken {

class Executor {
 public:
  /// "reference", "scalar", "avx2" or "avx512". Throws Unsupported for a level that this machine lacks.
  explicit Executor(const std::string& kind);

  /// A tensor that holds `values`, rounded to its dtype.
  Tensor make(DType dtype, const Shape& shape, std::span<const float> values);
  Tensor make(const Shape& shape, std::span<const float> values) { return make(DType::kF32, shape, values); }
  /// A tensor of NaN (integers: -1), to be written.
  Tensor make(DType dtype, const Shape& shape);
  Tensor integers(const std::vector<int32_t>& values);
  /// What a tensor holds, in order.
  [[nodiscard]] std::vector<float> read(const Tensor& tensor);

  /// Checks and runs one operator, with the workspace that it needs.
  template <class Op>
  void run(Op op) {
    if (backend_ == nullptr) {
      ops::check(op);
      reference(op);
      return;
    }
    if constexpr (requires { op.workspace; }) {
      const size_t bytes = ops::workspace_bytes(backend_->ops(), op);
      if (bytes > 0) op.workspace = make(DType::kU8, {static_cast<int64_t>(bytes)});
    }
    stream_->run([&](CommandList& cmd) { ops::dispatch(cmd, op); });
    stream_->synchronize();
  }

 private:
  Tensor upload(DType dtype, const Shape& shape, std::span<const std::byte> bytes);

  std::unique_ptr<GpuBackend> backend_;  // null: the references
  std::vector<Buffer> buffers_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace foretoken
