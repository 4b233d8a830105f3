// The operands of one case in one memory, with a guard zone before and after each.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "core/op_case.h"

namespace foretoken {

/// Bytes of one buffer, guard zones included.
using ByteImage = std::vector<std::byte>;

/// Makes operands in host memory (with contents) or on a device (memory only: contents are uploaded from the host's images).
/// After `begin`, a case's `make` gets the same tensors again, in the same order, with contents for the new seed.
class OperandSet final : public OperandMaker {
 public:
  static constexpr size_t kGuardBytes = 256;

  /// In host memory.
  OperandSet() = default;
  /// On a device, which must outlive the set.
  explicit OperandSet(GpuBackend& device) : device_(&device) {}

  /// Starts a run with `seed`.
  void begin(uint64_t seed);

  [[nodiscard]] uint64_t seed() const override { return seed_; }
  Tensor input(DType dtype, const Shape& shape, const Fill& fill) override;
  Tensor output(DType dtype, const Shape& shape) override;
  Tensor in_out(DType dtype, const Shape& shape, const Fill& fill) override;
  Tensor workspace(size_t bytes) override;
  Tensor strided(DType dtype, const Shape& shape, int64_t row_stride, const Fill& fill) override;

  /// Buffers made so far, in order. Scratch comes last.
  [[nodiscard]] size_t size() const { return slots_.size(); }
  /// The buffer that a tensor of this set lies in.
  [[nodiscard]] size_t slot_of(const Tensor& tensor) const;
  [[nodiscard]] BufferView view(size_t slot) const { return slots_[slot].buffer.view(); }
  /// Bytes of the operand itself, gaps between rows included; guard zones lie before and after.
  [[nodiscard]] size_t operand_bytes(size_t slot) const { return slots_[slot].tensor.view().bytes; }
  /// What the buffers of a host set hold now.
  [[nodiscard]] std::vector<ByteImage> images() const;
  /// Puts back what `images` returned.
  void restore(const std::vector<ByteImage>& images);
  /// A poisoned image for a scratch buffer.
  [[nodiscard]] ByteImage poisoned(size_t slot) const;

 private:
  struct Slot {
    Buffer buffer;
    Tensor tensor;
  };

  Tensor make(DType dtype, const Shape& shape, int64_t row_stride, const Fill& fill);
  [[nodiscard]] Buffer allocate(size_t bytes) const;
  void write_contents(const Slot& slot, const Fill& fill);

  GpuBackend* device_ = nullptr;
  std::vector<Slot> slots_;
  size_t next_ = 0;
  uint64_t seed_ = 0;
  std::mt19937_64 generator_;
};

}  // namespace foretoken
