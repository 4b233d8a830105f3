// The integers that change from step to step (positions, slots, lengths, tables), packed so that one upload carries them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"

namespace foretoken {

/// Fields are declared first, by all who share the buffer, then `allocate` fixes their addresses for good (Programs hold them).
/// The host writes into a staging copy; `upload` brings it to the device when something was written since the last time. Not
/// thread-safe.
class MetadataBuffer {
 public:
  /// Handle of a field of integers.
  struct Field {
    size_t offset = 0;  // bytes
    DType dtype = DType::kI32;
    Shape shape;
  };

  /// Declares a field, filled with zeros. Throws InvalidState after `allocate`.
  Field add(DType dtype, const Shape& shape);
  /// Throws OutOfMemory.
  void allocate(GpuBackend& backend);

  [[nodiscard]] Tensor tensor(const Field& field) const;
  /// Staging elements to write; counts as written.
  [[nodiscard]] std::span<int32_t> i32(const Field& field);
  [[nodiscard]] std::span<int64_t> i64(const Field& field);
  /// Writes `values` from element `first` on, where they differ from what is there: what stays the same is not uploaded again.
  void update(const Field& field, size_t first, std::span<const int32_t> values);

  /// Copies everything to the device, by work on `stream`, unless nothing was written since the last upload.
  void upload(Stream& stream);

 private:
  std::vector<std::byte> staging_;
  Buffer memory_;
  bool is_written_ = true;
};

}  // namespace foretoken
