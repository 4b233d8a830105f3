// Safetensors files: an 8-byte header length, a JSON header, and the tensors' bytes without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace foretoken {

/// One tensor of a file, as its header describes it.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;      // as written, for example "F16"
  std::optional<DType> dtype;  // nothing for dtypes of the format that this library does not compute with
  Shape shape;
  uint64_t file_offset = 0;  // of the first byte, from the start of the file
  uint64_t bytes = 0;
};

/// A file mapped read-only. Nobody may shorten it while it is mapped. Movable; const members are thread-safe.
///
/// What a header must satisfy, each violation a FormatError with the file, the tensor and the byte offset: at most 100 MB and
/// within the file, one UTF-8 JSON object without duplicate keys, `__metadata__` an object of strings, every other member an
/// object of exactly `dtype` (known to the format), `shape` (at most 5 extents, zero allowed) and `data_offsets`, whose length is
/// the shape's; the tensors follow each other from the first data byte to the end of the file with neither overlaps nor holes, as
/// the reference reader demands too.
class SafetensorsFile {
 public:
  /// Maps `path`. Throws InvalidArgument when it cannot be opened and FormatError as above.
  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// In the order of their bytes.
  [[nodiscard]] std::span<const SafetensorsEntry> entries() const { return entries_; }
  /// Null when there is none.
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;
  /// `__metadata__`; empty when there is none.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The mapped bytes of a tensor of this file.
  [[nodiscard]] std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
  /// Whether `range` lies in the mapping of this file.
  [[nodiscard]] bool contains(std::span<const std::byte> range) const;
  /// Lets the system take back the pages that lie wholly inside `range`; they are read again when touched.
  void release(std::span<const std::byte> range) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
};

/// What a header says: entries in the order of their bytes, and `__metadata__`.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// Parses and checks the JSON text of a header that starts at byte 8 of a file of `file_bytes`; `origin` names the file in
/// errors. Throws FormatError as SafetensorsFile does.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view json_text, uint64_t file_bytes,
                                                         const std::string& origin);

}  // namespace foretoken
