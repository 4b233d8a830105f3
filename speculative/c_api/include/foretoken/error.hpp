// Errors and handles of the C++ API: header-only over the C API, whose functions are all that a program links.
#pragma once

#include <stdexcept>
#include <utility>

#include "foretoken/status.h"

namespace foretoken {  // NOLINT(modernize-concat-nested-namespaces): formatters do not know the other way
inline namespace v0 {

/// What a call that fails throws: the status, and foretoken_last_error as its message.
class Error : public std::runtime_error {
 public:
  Error(foretoken_status status, const char* message) : std::runtime_error(message), status_(status) {}

  [[nodiscard]] foretoken_status status() const noexcept { return status_; }

 private:
  foretoken_status status_;
};

/// An option structure with its size set and every option at its default.
template <class T>
[[nodiscard]] T defaults() {
  T structure{};
  structure.struct_size = sizeof(T);
  return structure;
}

namespace detail {

inline void check(foretoken_status status) {
  if (status != FORETOKEN_OK) throw Error(status, foretoken_last_error());
}

/// Move-only owner of a handle.
template <class T, foretoken_status (*Free)(T*)>
class Handle {
 public:
  explicit Handle(T* handle) noexcept : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { static_cast<void>(Free(handle_)); }

  [[nodiscard]] T* get() const noexcept { return handle_; }
  T* release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  T* handle_;
};

/// The handle that `make` writes.
template <class T, class Make>
T* made(Make&& make) {
  T* handle = nullptr;
  check(std::forward<Make>(make)(&handle));
  return handle;
}

/// The structure that `get` fills.
template <class T, class Get>
T filled(Get&& get) {
  T structure = defaults<T>();
  check(std::forward<Get>(get)(&structure));
  return structure;
}

}  // namespace detail
}  // namespace v0
}  // namespace foretoken
