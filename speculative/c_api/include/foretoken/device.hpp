// Devices and buffers: see foretoken/device.h for what each call does. Every call throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "foretoken/device.h"
#include "foretoken/error.hpp"

namespace foretoken {  // NOLINT(modernize-concat-nested-namespaces): formatters do not know the other way
inline namespace v0 {

/// Every device of every backend, and every backend without one.
[[nodiscard]] inline std::vector<foretoken_device_info> devices() {
  size_t count = 0;
  detail::check(foretoken_device_count(&count));
  std::vector<foretoken_device_info> infos(count, defaults<foretoken_device_info>());
  for (size_t i = 0; i < count; ++i) detail::check(foretoken_device_describe(i, &infos[i]));
  return infos;
}

/// An opened device.
class Device {
 public:
  /// "auto", "cpu", "cuda:1", ...; empty: FORETOKEN_BACKEND, else "auto".
  explicit Device(const std::string& selector = {},
                  const foretoken_device_options& options = defaults<foretoken_device_options>())
      : handle_(detail::made<foretoken_device>(
            [&](auto** handle) { return foretoken_device_open(selector.c_str(), &options, handle); })) {}

  [[nodiscard]] foretoken_device_info info() const {
    return detail::filled<foretoken_device_info>([&](auto* info) { return foretoken_device_get_info(get(), info); });
  }
  [[nodiscard]] uint64_t allocated_bytes() const {
    uint64_t bytes = 0;
    detail::check(foretoken_device_allocated_bytes(get(), &bytes));
    return bytes;
  }
  void synchronize() const { detail::check(foretoken_device_synchronize(get())); }
  [[nodiscard]] foretoken_device* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<foretoken_device, foretoken_device_close> handle_;
};

/// Memory of a device.
class Buffer {
 public:
  Buffer(const Device& device, uint64_t bytes)
      : Buffer(
            detail::made<foretoken_buffer>([&](auto** handle) { return foretoken_buffer_create(device.get(), bytes, handle); })) {
  }
  /// Memory that stays the caller's.
  [[nodiscard]] static Buffer adopt(const Device& device, const foretoken_native_memory& memory) {
    return Buffer(
        detail::made<foretoken_buffer>([&](auto** handle) { return foretoken_buffer_adopt(device.get(), &memory, handle); }));
  }

  [[nodiscard]] uint64_t bytes() const {
    uint64_t bytes = 0;
    detail::check(foretoken_buffer_get(get(), &bytes, nullptr));
    return bytes;
  }
  [[nodiscard]] uint64_t address() const {
    uint64_t address = 0;
    detail::check(foretoken_buffer_get(get(), nullptr, &address));
    return address;
  }
  /// `offset` in bytes.
  template <class T>
  void upload(std::span<const T> source, uint64_t offset = 0) const {
    detail::check(foretoken_buffer_upload(get(), offset, source.data(), source.size_bytes()));
  }
  template <class T>
  void download(std::span<T> destination, uint64_t offset = 0) const {
    detail::check(foretoken_buffer_download(get(), offset, destination.data(), destination.size_bytes()));
  }
  [[nodiscard]] foretoken_buffer* get() const noexcept { return handle_.get(); }

 private:
  explicit Buffer(foretoken_buffer* handle) : handle_(handle) {}

  detail::Handle<foretoken_buffer, foretoken_buffer_free> handle_;
};

/// Hidden states in host memory, [num_rows, hidden_size] F32.
[[nodiscard]] inline foretoken_rows host_rows(const float* states, int64_t num_rows) {
  foretoken_rows rows{};
  rows.host = states;
  rows.num_rows = num_rows;
  rows.dtype = FORETOKEN_F32;
  return rows;
}

/// Hidden states on a device, `offset` bytes into a buffer.
[[nodiscard]] inline foretoken_rows device_rows(const Buffer& buffer, uint64_t offset, int64_t num_rows, foretoken_dtype dtype) {
  foretoken_rows rows{};
  rows.buffer = buffer.get();
  rows.offset = offset;
  rows.num_rows = num_rows;
  rows.dtype = dtype;
  return rows;
}

/// The first `count` of some rows.
[[nodiscard]] inline foretoken_rows first_rows(foretoken_rows rows, int64_t count) {
  rows.num_rows = count;
  return rows;
}

}  // namespace v0
}  // namespace foretoken
