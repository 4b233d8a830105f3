// The integers that change from step to step (positions, slots, lengths, tables), packed so that one upload carries them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"

namespace foretoken {

/// Fields are declared first, then `allocate` fixes their addresses for good (Programs hold them). The host writes into a staging
/// copy.
class MetadataBuffer {
 public:
  /// Handle of a field of integers.
  struct Field {
    size_t offset = 0;  // bytes
    DType dtype = DType::kI32;
    Shape shape;
  };

  /// Declares a field; the last one may be uploaded in part. Throws InvalidState after `allocate`.
  Field add(DType dtype, const Shape& shape);
  void allocate(GpuBackend& backend);

  [[nodiscard]] Tensor tensor(const Field& field) const;
  [[nodiscard]] std::span<int32_t> i32(const Field& field);
  [[nodiscard]] std::span<int64_t> i64(const Field& field);

  /// Copies the staging bytes up to and including the first `used` elements of `last` to the device.
  void upload(Stream& stream, const Field& last, size_t used) const;

 private:
  std::vector<std::byte> staging_;
  Buffer memory_;
};

}  // namespace foretoken
