#include "tests/conformance/interface/devices.h"

#include <cstdlib>
#include <numeric>

#include "backends/registry.h"
#include "tests/support/late_device.h"

namespace foretoken::test {

const std::vector<InterfaceDevice>& interface_devices() {
  static const BackendRegistry registry({});
  const auto cpu = [](int num_threads) { return [num_threads] { return registry.open("cpu", {.num_threads = num_threads}); }; };
  static const std::vector<InterfaceDevice> devices = [&] {
    std::vector<InterfaceDevice> list{
        {.name = "cpu_1_thread", .open = cpu(1)},
        {.name = "cpu_2_threads", .open = cpu(2)},
        {.name = "cpu_3_threads", .open = cpu(3)},
        {.name = "late", .open = [] { return make_late_backend({.num_threads = 2}); }},
    };
    if (const char* selector = std::getenv("FORETOKEN_TEST_BACKEND")) {
      list.push_back({.name = "selected",
                      .open = [selector] { return BackendRegistry::instance().open(selector); },
                      .runs_cpu_kernels = false});
    }
    return list;
  }();
  return devices;
}

Buffer InterfaceTest::upload(const std::vector<int32_t>& values) {
  Buffer buffer = backend_->allocate(values.size() * sizeof(int32_t));
  stream_->upload(std::as_bytes(std::span(values)), buffer.view());
  return buffer;
}

std::vector<int32_t> InterfaceTest::download(const BufferView& view) {
  std::vector<int32_t> values(view.bytes / sizeof(int32_t));
  stream_->download(view, std::as_writable_bytes(std::span(values)));
  return values;
}

void expect_error(const std::function<void()>& call, ErrorCode code, const std::vector<std::string>& parts) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " is not in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown, expected a " << to_string(code);
}

std::vector<int32_t> iota(size_t count, int32_t first) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace foretoken::test
