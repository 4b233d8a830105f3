#include "cache/metadata_buffer.h"

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

std::span<int32_t> MetadataBuffer::i32(const Field& field) { return typed<int32_t>(staging_, field); }
std::span<int64_t> MetadataBuffer::i64(const Field& field) { return typed<int64_t>(staging_, field); }

void MetadataBuffer::upload(Stream& stream, const Field& last, size_t used) const {
  const size_t bytes = last.offset + dtype_bytes(last.dtype, used);
  stream.upload(std::span(staging_).first(bytes), memory_.view().slice(0, bytes));
}

}  // namespace foretoken
