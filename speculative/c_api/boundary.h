// The edge between the C API and the library: exceptions become status codes, structures are read and written by their size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/dtype.h"
#include "core/error.h"
#include "foretoken.h"

namespace foretoken::c_api {

/// Status of the exception that is being handled; its message becomes that of foretoken_last_error.
foretoken_status report_current_exception() noexcept;

/// Runs the body of an entry.
template <class Fn>
foretoken_status guard(Fn&& fn) noexcept {
  try {
    std::forward<Fn>(fn)();
    return FORETOKEN_OK;
  } catch (...) {
    return report_current_exception();
  }
}

[[noreturn]] void fail_argument(std::string_view what, std::string_view expected, std::string_view got);

/// Throws InvalidArgument that names the argument when it is null.
template <class T>
T& require(T* argument, std::string_view name) {
  if (argument == nullptr) fail_argument(name, "a pointer", "null");
  return *argument;
}

/// Throws InvalidArgument unless low <= value <= high.
int64_t require_range(std::string_view name, int64_t value, int64_t low, int64_t high);

/// "" for null.
inline std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

/// Throws InvalidArgument for a size that no version of the structure had, and for bytes that this version does not know unless
/// they are zero.
void check_struct(const void* given, size_t size, size_t known, std::string_view name);

/// A caller's structure, which may be of an older or a newer version: what it lacks is zero.
template <class T>
T read_struct(const T* given, std::string_view name) {
  T copy{};
  if (given == nullptr) return copy;
  check_struct(given, given->struct_size, sizeof(T), name);
  std::memcpy(&copy, given, std::min(given->struct_size, sizeof(T)));
  return copy;
}

/// As much of `value` as the caller's version has.
template <class T>
void write_struct(T* out, T value, std::string_view name) {
  require(out, name);
  check_struct(nullptr, out->struct_size, sizeof(T), name);
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, std::min(out->struct_size, sizeof(T)));
}

/// Throws InvalidArgument for a number that is none of them, and for the default.
DType dtype_of(foretoken_dtype dtype, std::string_view name);
/// Likewise; nothing for the default.
std::optional<DType> optional_dtype(foretoken_dtype dtype, std::string_view name);
foretoken_dtype dtype_for(DType dtype);

}  // namespace foretoken::c_api
