// A module called "vulkan" with a software device and two GPUs. FORETOKEN_TEST_FAKE_GPU=none: without any device; =software: no
// GPU; =broken: none of them can be opened.
#include <cstdlib>
#include <string_view>

#include "backends/backend.h"
#include "backends/backend_module.h"
#include "core/error.h"

namespace {

using foretoken::Availability;
using foretoken::Capabilities;
using foretoken::DeviceKind;
using foretoken::Error;
using foretoken::ErrorCode;

bool mode_is(std::string_view mode) {
  const char* value = std::getenv("FORETOKEN_TEST_FAKE_GPU");
  return value != nullptr && value == mode;
}

class FakeGpu final : public foretoken::GpuBackend {
 public:
  explicit FakeGpu(Capabilities capabilities) : capabilities_(std::move(capabilities)) {}

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] foretoken::Buffer allocate(size_t, foretoken::MemoryKind) override { return {}; }
  [[nodiscard]] size_t allocated_bytes() const override { return 0; }
  [[nodiscard]] std::unique_ptr<foretoken::Stream> create_stream() override { return nullptr; }
  [[nodiscard]] std::unique_ptr<foretoken::Event> create_event() override { return nullptr; }
  [[nodiscard]] foretoken::Program record(std::string_view, const foretoken::RecordFn&) override { return {}; }
  [[nodiscard]] const foretoken::OpTable& ops() const override { return ops_; }

 private:
  Capabilities capabilities_;
  foretoken::OpTable ops_;
};

Capabilities device(const char* name, DeviceKind kind) {
  Capabilities capabilities;
  capabilities.backend = "vulkan";
  capabilities.device_name = name;
  capabilities.kind = kind;
  return capabilities;
}

class Provider final : public foretoken::BackendProvider {
 public:
  [[nodiscard]] std::string name() const override { return "vulkan"; }
  [[nodiscard]] Availability availability() const override {
    return mode_is("none") ? Availability::no("no driver: nothing in the folder") : Availability::yes();
  }
  [[nodiscard]] std::vector<Capabilities> devices() const override {
    if (mode_is("none")) return {};
    if (mode_is("software")) return {device("software", DeviceKind::kOther)};
    return {device("software", DeviceKind::kOther), device("first", DeviceKind::kDiscreteGpu),
            device("second", DeviceKind::kIntegratedGpu)};
  }
  [[nodiscard]] std::unique_ptr<foretoken::GpuBackend> open(int index, const foretoken::BackendOptions& options) const override {
    if (options.vulkan) return std::make_unique<FakeGpu>(device("the caller's", DeviceKind::kDiscreteGpu));
    if (mode_is("broken")) throw Error(ErrorCode::kDeviceError, "the device is lost");
    return std::make_unique<FakeGpu>(devices().at(static_cast<size_t>(index)));
  }
};

foretoken::BackendProvider* create_provider() { return new Provider(); }

}  // namespace

extern "C" const foretoken::BackendModule* foretoken_backend_module() {
  static constexpr foretoken::BackendModule kModule{
      .abi_version = foretoken::kBackendAbiVersion, .name = "vulkan", .create_provider = create_provider};
  return &kModule;
}
