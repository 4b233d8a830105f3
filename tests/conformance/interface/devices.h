// The devices that the interface suite runs on, and what its tests share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "core/error.h"

namespace foretoken::test {

struct InterfaceDevice {
  std::string name;
  std::function<std::unique_ptr<GpuBackend>()> open;
  bool runs_cpu_kernels = true;  // the test's own kernels are CPU functions
};

inline void PrintTo(const InterfaceDevice& device, std::ostream* out) { *out << device.name; }

/// The CPU with 1, 2 and 3 threads, the late device, and the device that FORETOKEN_TEST_BACKEND selects, if any.
const std::vector<InterfaceDevice>& interface_devices();

/// One device, with a stream.
class InterfaceTest : public testing::TestWithParam<InterfaceDevice> {
 protected:
  std::unique_ptr<GpuBackend> backend_ = GetParam().open();
  std::unique_ptr<Stream> stream_ = backend_->create_stream();

  /// Device memory that holds `values`.
  Buffer upload(const std::vector<int32_t>& values);
  std::vector<int32_t> download(const BufferView& view);
};

/// Expects that `call` throws an Error of this code whose message has all `parts`.
void expect_error(const std::function<void()>& call, ErrorCode code, const std::vector<std::string>& parts = {});

/// first, first + 1, ...
std::vector<int32_t> iota(size_t count, int32_t first = 0);

/// Instantiates a suite for every device.
#define FORETOKEN_INTERFACE_SUITE(Suite)                                           \
  INSTANTIATE_TEST_SUITE_P(Devices, Suite, testing::ValuesIn(interface_devices()), \
                           [](const testing::TestParamInfo<InterfaceDevice>& device) { return device.param.name; })

}  // namespace foretoken::test
