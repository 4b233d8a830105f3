// Reference values of tests/data/golden.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/safetensors.h"

namespace foretoken::test {

/// Path below tests/data.
inline std::filesystem::path data_path(const std::string& name) { return std::filesystem::path(FORETOKEN_TEST_DATA) / name; }

/// A file of named arrays. Throws FormatError for a name that is not there.
class Golden {
 public:
  explicit Golden(const std::string& name) : file_(data_path("golden/" + name)) {}

  [[nodiscard]] bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  [[nodiscard]] Shape shape(const std::string& name) const { return entry(name).shape; }
  [[nodiscard]] std::vector<int32_t> i32(const std::string& name) const { return array<int32_t>(name); }
  [[nodiscard]] std::vector<float> f32(const std::string& name) const { return array<float>(name); }

 private:
  [[nodiscard]] const SafetensorsEntry& entry(const std::string& name) const {
    const SafetensorsEntry* found = file_.find(name);
    if (found == nullptr) throw Error(ErrorCode::kFormatError, "no golden array " + name);
    return *found;
  }
  template <class T>
  [[nodiscard]] std::vector<T> array(const std::string& name) const {
    const auto bytes = file_.bytes(entry(name));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  SafetensorsFile file_;
};

}  // namespace foretoken::test
