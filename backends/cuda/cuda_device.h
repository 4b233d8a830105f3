// The CUDA devices of this machine and what each can do.
#pragma once

#include "backends/capabilities.h"

namespace foretoken::cuda {

/// Whether the driver is there and has a device; otherwise what CUDA says about it.
[[nodiscard]] Availability driver_availability();

/// 0 without a driver.
[[nodiscard]] int num_devices();

/// Throws DeviceError when the device cannot be asked.
[[nodiscard]] Capabilities device_capabilities(int device);

}  // namespace foretoken::cuda
