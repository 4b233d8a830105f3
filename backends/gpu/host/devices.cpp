#include "backends/gpu/host/devices.h"

#include "backends/gpu/host/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

Availability driver_availability() {
  int count = 0;
  const runtime::Result result = runtime::device_count(count);
  if (result.failed()) {
    runtime::clear_error();
    return Availability::no((runtime::is_no_device(result.status) ? "no usable driver or device: " : "") +
                            describe(result.status));
  }
  return count > 0 ? Availability::yes() : Availability::no("the driver has no device");
}

int num_devices() {
  int count = 0;
  if (!runtime::device_count(count).failed()) return count;
  runtime::clear_error();
  return 0;
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
