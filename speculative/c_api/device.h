// Devices and buffers of the C API.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "backends/backend.h"
#include "core/error.h"
#include "foretoken/device.h"
#include "speculative/c_api/handles.h"

namespace foretoken::c_api {

/// An opened device and the one stream on which everything made from it runs.
class DeviceObject final : public Root, public std::enable_shared_from_this<DeviceObject> {
 public:
  static constexpr std::string_view kKind = "device";

  /// `is_adopted`: the stream is the caller's.
  DeviceObject(std::unique_ptr<GpuBackend> device, std::unique_ptr<Stream> device_stream, bool is_adopted)
      : backend_(std::move(device)), stream_(std::move(device_stream)), is_adopted_(is_adopted) {}

  [[nodiscard]] std::shared_ptr<Root> root() override { return shared_from_this(); }
  void settle() noexcept override;
  [[nodiscard]] GpuBackend& backend() { return *backend_; }
  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] bool is_adopted() const { return is_adopted_; }
  /// For those that keep the device alive by themselves.
  [[nodiscard]] std::shared_ptr<GpuBackend> shared_backend() { return {shared_from_this(), backend_.get()}; }

 private:
  std::unique_ptr<GpuBackend> backend_;
  std::unique_ptr<Stream> stream_;
  bool is_adopted_;
};

/// An object on a device.
class DeviceChild : public Object {
 public:
  explicit DeviceChild(std::shared_ptr<DeviceObject> device) : device_(std::move(device)) {}

  [[nodiscard]] std::shared_ptr<Root> root() override { return device_; }
  [[nodiscard]] const std::shared_ptr<DeviceObject>& device() const { return device_; }
  [[nodiscard]] GpuBackend& backend() const { return device_->backend(); }
  [[nodiscard]] Stream& stream() const { return device_->stream(); }

 private:
  std::shared_ptr<DeviceObject> device_;
};

/// Memory that a caller has a handle of: its own, the library's, or part of another object.
class BufferObject final : public DeviceChild {
 public:
  static constexpr std::string_view kKind = "buffer";

  BufferObject(std::shared_ptr<DeviceObject> device, Buffer memory)
      : DeviceChild(std::move(device)), memory_(std::move(memory)), view_(memory_.view()) {}
  /// Part of `owner`, whose end makes the handle stale.
  BufferObject(std::shared_ptr<DeviceObject> device, const BufferView& view, std::weak_ptr<Object> owner)
      : DeviceChild(std::move(device)), view_(view), owner_(std::move(owner)) {}

  [[nodiscard]] bool is_part() const { return !memory_; }
  /// While the device is locked. Throws InvalidHandle when the owner is gone.
  [[nodiscard]] const BufferView& view() const;
  /// Throws InvalidArgument for bytes past the end, with `name` in front.
  [[nodiscard]] BufferView slice(std::string_view name, uint64_t offset, uint64_t bytes) const {
    return with_error_context(name, [&] { return view().slice(offset, bytes); });
  }

 private:
  Buffer memory_;
  BufferView view_;
  std::weak_ptr<Object> owner_;
};

/// A caller's buffer on `device`. Throws InvalidHandle; InvalidArgument for one of another device.
[[nodiscard]] std::shared_ptr<BufferObject> buffer_on(const DeviceObject& device, foretoken_buffer* buffer,
                                                      std::string_view name);

}  // namespace foretoken::c_api
