// Writes a safetensors file front to back; a file with the final name exists only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace foretoken {

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;  // any but the packed E2M1, which files hold as U8
  Shape shape;
};

/// Not thread-safe. Destroyed before finish(), it removes what it wrote.
class SafetensorsWriter {
 public:
  /// Starts `path`.partial with a header for `tensors`, whose bytes follow in this order. Throws InvalidArgument (duplicate or
  /// reserved names, E2M1, folder not there, not enough disk space) and leaves nothing behind.
  SafetensorsWriter(std::filesystem::path path, const std::vector<SafetensorsTensor>& tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next bytes of the file. Throws InvalidArgument when they are more than declared, DeviceError when the disk refuses.
  void append(std::span<const std::byte> bytes);
  /// The next bytes of tensor `index` of those declared: tensors may so be written side by side. A file takes either all its
  /// bytes through this or none. Throws as above.
  void append_to(size_t index, std::span<const std::byte> bytes);
  /// Completes the file and gives it its name, replacing one of that name. Throws InvalidState when bytes are missing.
  void finish();

 private:
  /// Where the next byte of a tensor goes, and where its last one ends, from the start of the file.
  struct TensorBytes {
    uint64_t next;
    uint64_t end;
  };

  void write(const char* data, size_t bytes);

  std::filesystem::path path_;
  std::filesystem::path partial_path_;
  int fd_ = -1;
  uint64_t bytes_left_ = 0;
  std::vector<TensorBytes> tensors_;
};

}  // namespace foretoken
