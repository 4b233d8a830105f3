#include "speculative/c_api/device.h"

#include <exception>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "core/log.h"
#include "speculative/c_api/boundary.h"

namespace foretoken::c_api {
namespace {

template <size_t N>
void put_text(char (&out)[N], std::string_view text) {
  out[text.copy(out, N - 1)] = '\0';
}

foretoken_device_kind kind_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu: return FORETOKEN_DEVICE_CPU;
    case DeviceKind::kIntegratedGpu: return FORETOKEN_DEVICE_INTEGRATED_GPU;
    case DeviceKind::kDiscreteGpu: return FORETOKEN_DEVICE_DISCRETE_GPU;
    case DeviceKind::kOther: break;
  }
  return FORETOKEN_DEVICE_OTHER;
}

foretoken_device_info info_of(const Capabilities& device, std::string_view selector) {
  foretoken_device_info info{};
  put_text(info.selector, selector);
  put_text(info.name, device.device_name);
  put_text(info.driver, device.driver);
  info.kind = kind_of(device.kind);
  info.total_memory_bytes = device.total_memory_bytes;
  return info;
}

/// Every device of every backend, and every backend without one.
std::vector<foretoken_device_info> find_devices() {
  std::vector<foretoken_device_info> infos;
  for (const BackendReport& report : BackendRegistry::instance().report()) {
    for (size_t i = 0; i < report.devices.size(); ++i) {
      const bool is_only = report.name == "cpu";  // its devices have no numbers
      infos.push_back(info_of(report.devices[i], is_only ? report.name : report.name + ":" + std::to_string(i)));
    }
    if (!report.devices.empty()) continue;
    foretoken_device_info& info = infos.emplace_back();
    put_text(info.selector, report.name);
    put_text(info.unavailable, report.available ? "no device was found" : report.available.reason());
    info.kind = FORETOKEN_DEVICE_OTHER;
  }
  return infos;
}

/// As found by the first call: a backend may have to start its driver to tell.
const std::vector<foretoken_device_info>& all_devices() {
  static const std::vector<foretoken_device_info> infos = find_devices();
  return infos;
}

VulkanDevice vulkan_device(const foretoken_vulkan_device& given) {
  VulkanDevice device{.get_instance_proc_addr = given.get_instance_proc_addr,
                      .instance = given.instance,
                      .physical_device = given.physical_device,
                      .device = given.device,
                      .queue = given.queue,
                      .queue_family_index = given.queue_family_index,
                      .device_create_info = given.device_create_info,
                      .api_version = given.api_version,
                      .lock_queue = {},
                      .unlock_queue = {}};
  if (given.lock_queue != nullptr) device.lock_queue = [lock = given.lock_queue, user = given.user] { lock(user); };
  if (given.unlock_queue != nullptr) device.unlock_queue = [unlock = given.unlock_queue, user = given.user] { unlock(user); };
  return device;
}

std::shared_ptr<DeviceObject> open_device(const std::string& selector, const foretoken_device_options& options) {
  BackendOptions chosen{.num_threads = static_cast<int>(require_range("options.num_threads", options.num_threads, 0, 4096)),
                        .vulkan = {}};
  if (options.vulkan != nullptr) chosen.vulkan = vulkan_device(read_struct(options.vulkan, "options.vulkan"));
  if (options.adopt_stream == 0 && options.native_stream != nullptr) {
    fail_argument("options.native_stream", "null, or adopt_stream", "a stream");
  }
  auto backend = BackendRegistry::instance().open(selector, chosen);
  const bool is_adopted = options.adopt_stream != 0;
  auto stream = is_adopted ? backend->adopt_stream(options.native_stream) : backend->create_stream();
  return std::make_shared<DeviceObject>(std::move(backend), std::move(stream), is_adopted);
}

}  // namespace

void DeviceObject::settle() noexcept {
  try {
    stream_->synchronize();
  } catch (const std::exception& error) {
    log().warn("the device failed before something on it was freed: {}", error.what());
  }
}

const BufferView& BufferObject::view() const {
  if (is_part() && owner_.expired()) fail_handle(kKind, "part of an object that was freed");
  return view_;
}

std::shared_ptr<BufferObject> buffer_on(const DeviceObject& device, foretoken_buffer* buffer, std::string_view name) {
  auto object = find<BufferObject>(buffer);
  if (object->device().get() != &device) fail_argument(name, "a buffer of the same foretoken_device", "one of another");
  return object;
}

}  // namespace foretoken::c_api

using namespace foretoken;
using namespace foretoken::c_api;

foretoken_status foretoken_device_count(size_t* count) {
  return guard([&] { require(count, "count") = all_devices().size(); });
}

foretoken_status foretoken_device_describe(size_t index, foretoken_device_info* info) {
  return guard([&] {
    require(info, "info");
    const std::vector<foretoken_device_info>& infos = all_devices();
    if (index >= infos.size()) {
      fail_argument("index", "less than " + std::to_string(infos.size()), std::to_string(index));
    }
    write_struct(info, infos[index], "info");
  });
}

foretoken_status foretoken_device_open(const char* selector, const foretoken_device_options* options, foretoken_device** device) {
  return guard([&] {
    require(device, "device");
    const auto given = read_struct(options, "options");
    *device = make_handle<foretoken_device>(open_device(text_or_empty(selector), given));
  });
}

foretoken_status foretoken_device_close(foretoken_device* device) {
  return guard([&] { free_handle<DeviceObject>(device); });
}

foretoken_status foretoken_device_get_info(foretoken_device* device, foretoken_device_info* info) {
  return guard([&] {
    Locked<DeviceObject> object(device);
    const Capabilities& capabilities = object->backend().capabilities();
    write_struct(info, info_of(capabilities, capabilities.backend), "info");
  });
}

foretoken_status foretoken_device_allocated_bytes(foretoken_device* device, uint64_t* bytes) {
  return guard([&] {
    Locked<DeviceObject> object(device);
    require(bytes, "bytes") = object->backend().allocated_bytes();
  });
}

foretoken_status foretoken_device_synchronize(foretoken_device* device) {
  return guard([&] { Locked<DeviceObject>(device)->stream().synchronize(); });
}

foretoken_status foretoken_buffer_create(foretoken_device* device, uint64_t bytes, foretoken_buffer** buffer) {
  return guard([&] {
    Locked<DeviceObject> object(device);
    require(buffer, "buffer");
    if (bytes == 0) fail_argument("bytes", "at least 1", "0");
    *buffer = make_handle<foretoken_buffer>(std::make_shared<BufferObject>(object.shared(), object->backend().allocate(bytes)));
  });
}

foretoken_status foretoken_buffer_adopt(foretoken_device* device, const foretoken_native_memory* memory,
                                        foretoken_buffer** buffer) {
  return guard([&] {
    Locked<DeviceObject> object(device);
    require(memory, "memory");
    require(buffer, "buffer");
    const auto given = read_struct(memory, "memory");
    *buffer = make_handle<foretoken_buffer>(std::make_shared<BufferObject>(
        object.shared(), object->backend().adopt_memory({.handle = given.handle, .offset = given.offset, .bytes = given.bytes})));
  });
}

foretoken_status foretoken_buffer_free(foretoken_buffer* buffer) {
  return guard([&] {
    if (buffer != nullptr && find<BufferObject>(buffer)->is_part()) {
      fail_argument("buffer", "one of foretoken_buffer_create or foretoken_buffer_adopt", "part of a target");
    }
    free_handle<BufferObject>(buffer);
  });
}

foretoken_status foretoken_buffer_get(foretoken_buffer* buffer, uint64_t* bytes, uint64_t* address) {
  return guard([&] {
    Locked<BufferObject> object(buffer);
    if (bytes != nullptr) *bytes = object->view().bytes;
    if (address != nullptr) *address = object->view().address();
  });
}

foretoken_status foretoken_buffer_get_native(foretoken_buffer* buffer, foretoken_native_memory* memory) {
  return guard([&] {
    Locked<BufferObject> object(buffer);
    const NativeMemory native = object->view().native();
    write_struct(memory, {.struct_size = 0, .handle = native.handle, .offset = native.offset, .bytes = native.bytes}, "memory");
  });
}

foretoken_status foretoken_buffer_upload(foretoken_buffer* buffer, uint64_t offset, const void* source, uint64_t bytes) {
  return guard([&] {
    Locked<BufferObject> object(buffer);
    const BufferView view = object->slice("offset and bytes", offset, bytes);
    if (bytes == 0) return;
    object->stream().upload({static_cast<const std::byte*>(&require(static_cast<const std::byte*>(source), "source")), bytes},
                            view);
  });
}

foretoken_status foretoken_buffer_download(foretoken_buffer* buffer, uint64_t offset, void* destination, uint64_t bytes) {
  return guard([&] {
    Locked<BufferObject> object(buffer);
    const BufferView view = object->slice("offset and bytes", offset, bytes);
    if (bytes == 0) return;
    object->stream().download(view, {&require(static_cast<std::byte*>(destination), "destination"), bytes});
  });
}
