#include "cache/metadata_buffer.h"

#include <algorithm>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr size_t kFieldAlignment = 64;  // bytes; a cache line per field

template <class Integer>
std::span<Integer> typed(std::vector<std::byte>& staging, const MetadataBuffer::Field& field) {
  return {reinterpret_cast<Integer*>(staging.data() + field.offset), static_cast<size_t>(field.shape.num_elements())};
}

}  // namespace

MetadataBuffer::Field MetadataBuffer::add(DType dtype, const Shape& shape) {
  if (memory_) throw Error(ErrorCode::kInvalidState, "metadata fields must be declared before the buffer is allocated");
  const size_t offset = (staging_.size() + kFieldAlignment - 1) / kFieldAlignment * kFieldAlignment;
  staging_.resize(offset + dtype_bytes(dtype, static_cast<size_t>(shape.num_elements())));
  return {.offset = offset, .dtype = dtype, .shape = shape};
}

void MetadataBuffer::allocate(GpuBackend& backend) { memory_ = backend.allocate(staging_.size()); }

Tensor MetadataBuffer::tensor(const Field& field) const { return memory_.tensor(field.dtype, field.shape, field.offset); }

std::span<int32_t> MetadataBuffer::i32(const Field& field) {
  is_written_ = true;
  return typed<int32_t>(staging_, field);
}

std::span<int64_t> MetadataBuffer::i64(const Field& field) {
  is_written_ = true;
  return typed<int64_t>(staging_, field);
}

void MetadataBuffer::update(const Field& field, size_t first, std::span<const int32_t> values) {
  const auto there = typed<int32_t>(staging_, field).subspan(first, values.size());
  if (std::ranges::equal(there, values)) return;
  std::ranges::copy(values, there.begin());
  is_written_ = true;
}

void MetadataBuffer::upload(Stream& stream) {
  if (!is_written_) return;
  stream.upload(staging_, memory_.view());
  is_written_ = false;
}

}  // namespace foretoken
