// Runs CPU operators without the runtime: kernels of one chosen instruction set, launched at once in chosen ranges of items.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/ops.h"

namespace foretoken::cpu {

class HostBuffer final : public BufferHandle {
 public:
  explicit HostBuffer(size_t bytes) : memory_(bytes / sizeof(uint64_t) + 1) {}
  [[nodiscard]] size_t bytes() const override { return memory_.size() * sizeof(uint64_t); }
  [[nodiscard]] DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(memory_.data()); }
  [[nodiscard]] MemoryKind kind() const override { return MemoryKind::kHostVisible; }
  [[nodiscard]] std::byte* host_data() const override { return reinterpret_cast<std::byte*>(address()); }

 private:
  std::vector<uint64_t> memory_;
};

/// A tensor that owns its memory. Starts as zeros.
template <class T>
class Owned {
 public:
  Owned(DType dtype, const Shape& shape)
      : buffer_(std::make_unique<HostBuffer>(static_cast<size_t>(shape.num_elements()) * sizeof(T))),
        tensor_(BufferView{buffer_.get(), 0, buffer_->bytes()}, dtype, shape) {}
  Owned(DType dtype, const Shape& shape, const std::vector<T>& values) : Owned(dtype, shape) {
    std::copy(values.begin(), values.end(), data());
  }

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(buffer_->host_data()); }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(tensor_.shape().num_elements()); }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }  // NOLINT(google-explicit-constructor): stands for its tensor
  [[nodiscard]] std::vector<T> values() const { return {data(), data() + size()}; }
  void fill(T value) const { std::fill(data(), data() + size(), value); }
  void assign(const Owned& other) const { std::copy(other.data(), other.data() + size(), data()); }
  /// Row `row` of axis 0.
  [[nodiscard]] std::vector<T> row(size_t row) const {
    const auto n = static_cast<size_t>(tensor_.shape().row_elements());
    return {data() + row * n, data() + (row + 1) * n};
  }

 private:
  std::unique_ptr<HostBuffer> buffer_;
  Tensor tensor_;
};

using Floats = Owned<float>;
using Halves = Owned<uint16_t>;
using Codes = Owned<uint8_t>;
using Ints = Owned<int32_t>;

inline Floats zeros(const Shape& shape) { return {DType::kF32, shape}; }
inline Ints ints(const std::vector<int32_t>& values) { return {DType::kI32, {static_cast<int64_t>(values.size())}, values}; }

inline Floats random_floats(const Shape& shape, uint32_t seed, float sigma = 1.0F) {
  Floats tensor(DType::kF32, shape);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, sigma);
  std::generate(tensor.data(), tensor.data() + tensor.size(), [&] { return normal(generator); });
  return tensor;
}

/// Whether this machine can run kernels of `isa`.
inline bool runs_here(Isa isa) { return isa <= best_isa(); }

class DirectModule final : public KernelModule {
 public:
  class Code final : public KernelCode {
   public:
    explicit Code(const KernelEntry& entry) : KernelCode(std::string(entry.name), entry.params_bytes), function(entry.function) {}
    KernelFn function;
  };

  /// `first` are found before those of `isa`.
  explicit DirectModule(Isa isa, const std::vector<KernelEntry>& first) {
    for (const KernelEntry& entry : first) codes_.push_back(std::make_unique<Code>(entry));
    for (const KernelEntry& entry : kernels_for(isa)) codes_.push_back(std::make_unique<Code>(entry));
  }

  [[nodiscard]] const KernelCode* find(std::string_view name, std::string& reason) const override {
    for (const auto& code : codes_) {
      if (code->name() == name) return code.get();
    }
    reason = "no such kernel";
    return nullptr;
  }

 private:
  std::vector<std::unique_ptr<Code>> codes_;
};

/// Launches run at once, in ranges of at most `range` items, the last range first: as many threads in any order would.
class DirectList final : public CommandList {
 public:
  explicit DirectList(Isa isa, uint32_t range = UINT32_MAX, const std::vector<KernelEntry>& first = {})
      : module_(isa, first), range_(range) {
    add_amx_ops(ops_, module_);
    add_prefill_ops(ops_, module_);
    add_linear_ops(ops_, module_);
    add_quantize_ops(ops_, module_);
    add_norm_ops(ops_, module_);
    add_attention_ops(ops_, module_);
    add_delta_net_ops(ops_, module_);
    add_sampling_ops(ops_, module_);
    add_sample_ops(ops_, module_);
  }

  void launch(const KernelCode& code, Grid grid, std::span<const std::byte> params, std::span<const Access>) override {
    const uint32_t ranges = grid.x == 0 ? 0 : (grid.x - 1) / range_ + 1;
    for (uint32_t i = ranges; i-- > 0;) {
      const uint32_t begin = i * range_;
      const uint32_t end = grid.x - begin < range_ ? grid.x : begin + range_;
      static_cast<const DirectModule::Code&>(code).function(params.data(), begin, end);
    }
    ++num_launches_;
  }
  void copy(const BufferView& source, const BufferView& destination) override {
    std::memcpy(destination.buffer->host_data() + destination.offset, source.buffer->host_data() + source.offset, source.bytes);
  }
  void fill(const BufferView& destination, uint32_t pattern) override {
    for (size_t i = 0; i < destination.bytes; i += sizeof(pattern)) {
      std::memcpy(destination.buffer->host_data() + destination.offset + i, &pattern, sizeof(pattern));
    }
  }
  void label(std::string_view) override {}
  [[nodiscard]] bool is_recording() const override { return false; }
  [[nodiscard]] const OpTable& ops() const override { return ops_; }
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] size_t num_launches() const { return num_launches_; }

  /// Checks and runs `op`, with a workspace of the size that its implementation asks for where it has one.
  template <class Op>
  void run(Op op) {
    if constexpr (requires { op.workspace; }) {
      const size_t bytes = ops::workspace_bytes(ops_, op);
      const Owned<uint8_t> workspace(DType::kU8, {static_cast<int64_t>(bytes)});
      workspace.fill(0xff);  // NaN: nothing may be read before it is written
      op.workspace = workspace;
      ops::dispatch(*this, op);
    } else {
      ops::dispatch(*this, op);
    }
  }

 private:
  DirectModule module_;
  OpTable ops_;
  Capabilities capabilities_;
  uint32_t range_;
  size_t num_launches_ = 0;
};

}  // namespace foretoken::cpu
