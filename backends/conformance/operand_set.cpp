#include "backends/conformance/operand_set.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "backends/cpu/reference/host_buffer.h"
#include "backends/cpu/reference/host_tensor.h"
#include "core/error.h"

namespace foretoken {
namespace {

/// A NaN that no computation gives, so that untouched outputs are told from NaN results.
constexpr uint32_t kPoisonF32 = 0x7fc0deadU;
constexpr uint16_t kPoisonBF16 = 0x7fdeU;
constexpr int32_t kPoisonI32 = 0x5aa5c33c;
constexpr std::byte kPoisonByte{0xff};  // as floats: NaN, as integers: -1

std::byte guard_byte(size_t index) { return static_cast<std::byte>(0xa5U ^ (index * 29U)); }

void store_poison(std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF32: std::memcpy(data + index * 4, &kPoisonF32, sizeof(kPoisonF32)); return;
    case DType::kBF16: std::memcpy(data + index * 2, &kPoisonBF16, sizeof(kPoisonBF16)); return;
    case DType::kI32:
    case DType::kI64: store_element(data, dtype, index, kPoisonI32); return;
    case DType::kE4M3:
    case DType::kU8: data[index] = kPoisonByte; return;
    case DType::kE2M1: data[index / 2] = kPoisonByte; return;
  }
}

}  // namespace

void OperandSet::begin(uint64_t seed) {
  seed_ = seed;
  generator_.seed(seed);
  next_ = 0;
}

Tensor OperandSet::input(DType dtype, const Shape& shape, const Fill& fill) {
  return make(dtype, shape, shape.row_elements(), fill);
}

Tensor OperandSet::output(DType dtype, const Shape& shape) { return make(dtype, shape, shape.row_elements(), {}); }

Tensor OperandSet::in_out(DType dtype, const Shape& shape, const Fill& fill) {
  return make(dtype, shape, shape.row_elements(), fill);
}

Tensor OperandSet::workspace(size_t bytes) { return output(DType::kU8, {static_cast<int64_t>(bytes)}); }

Tensor OperandSet::strided(DType dtype, const Shape& shape, int64_t row_stride, const Fill& fill) {
  return make(dtype, shape, row_stride, fill);
}

Buffer OperandSet::allocate(size_t bytes) const {
  return device_ == nullptr ? Buffer(std::make_unique<HostBuffer>(bytes)) : device_->allocate(bytes);
}

Tensor OperandSet::make(DType dtype, const Shape& shape, int64_t row_stride, const Fill& fill) {
  if (next_ == slots_.size()) {
    const Shape padded{shape[0], row_stride};
    const int64_t last_gap = shape[0] > 0 ? row_stride - shape.row_elements() : 0;
    const size_t operand_bytes = dtype_bytes(dtype, static_cast<size_t>(padded.num_elements()));
    Slot slot{.buffer = allocate(kGuardBytes + operand_bytes + kGuardBytes), .tensor = {}};
    const Tensor wide = slot.buffer.tensor(dtype, padded, kGuardBytes);
    slot.tensor =
        last_gap == 0 ? slot.buffer.tensor(dtype, shape, kGuardBytes) : wide.columns(0, shape.row_elements()).reshape(shape);
    slots_.push_back(std::move(slot));
  }
  const Slot& slot = slots_[next_++];
  if (slot.tensor.dtype() != dtype || !(slot.tensor.shape() == shape)) {
    throw Error(
        ErrorCode::kInternalError,
        {.what = "a case's operands depend on its seed", .expected = slot.tensor.shape().to_string(), .got = shape.to_string()});
  }
  if (device_ == nullptr) write_contents(slot, fill);
  return slot.tensor;
}

void OperandSet::write_contents(const Slot& slot, const Fill& fill) {
  const BufferView view = slot.buffer.view();
  std::byte* buffer = view.buffer->host_data();
  for (size_t i = 0; i < view.bytes; ++i) buffer[i] = guard_byte(i);
  std::byte* data = buffer + kGuardBytes;
  const Tensor& tensor = slot.tensor;
  const int64_t width = tensor.shape().row_elements();
  std::vector<double> values(static_cast<size_t>(tensor.shape().num_elements()));
  if (fill) fill(generator_, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / width;
    const int64_t element = row * tensor.row_stride() + static_cast<int64_t>(i) % width;
    if (fill) {
      store_element(data, tensor.dtype(), element, values[i]);
    } else {
      store_poison(data, tensor.dtype(), element);
    }
  }
}

size_t OperandSet::slot_of(const Tensor& tensor) const {
  const auto found =
      std::ranges::find_if(slots_, [&](const Slot& slot) { return slot.buffer.view().buffer == tensor.view().buffer; });
  if (found == slots_.end()) throw Error(ErrorCode::kInternalError, "a case's operand does not come from its maker");
  return static_cast<size_t>(found - slots_.begin());
}

std::vector<ByteImage> OperandSet::images() const {
  std::vector<ByteImage> list;
  for (const Slot& slot : slots_) {
    const BufferView all = slot.buffer.view();
    list.emplace_back(all.buffer->host_data(), all.buffer->host_data() + all.bytes);
  }
  return list;
}

void OperandSet::restore(const std::vector<ByteImage>& images) {
  for (size_t i = 0; i < slots_.size(); ++i) std::ranges::copy(images[i], slots_[i].buffer.view().buffer->host_data());
}

ByteImage OperandSet::poisoned(size_t slot) const {
  ByteImage image(slots_[slot].buffer.bytes(), kPoisonByte);
  for (size_t i = 0; i < image.size(); ++i) {
    if (i < kGuardBytes || i >= image.size() - kGuardBytes) image[i] = guard_byte(i);
  }
  return image;
}

}  // namespace foretoken
