// The CUDA devices of this machine and what each can do.
#pragma once

#include "backends/capabilities.h"

namespace foretoken::cuda {

/// Whether the driver is there and has a device; otherwise what CUDA says about it.
[[nodiscard]] Availability driver_availability();

/// 0 without a driver.
[[nodiscard]] int num_devices();

/// What kernels are chosen and launched by.
struct DeviceLimits {
  uint32_t architecture = 0;      // compute capability, major * 10 + minor
  uint32_t max_group_memory = 0;  // bytes of one work group
};

/// Throws DeviceError when the device cannot be asked.
[[nodiscard]] DeviceLimits device_limits(int device);

/// Throws DeviceError when the device cannot be asked.
[[nodiscard]] Capabilities device_capabilities(int device);

}  // namespace foretoken::cuda
