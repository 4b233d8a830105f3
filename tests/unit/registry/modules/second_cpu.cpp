// A module with the name of the built-in backend.
#include "backends/backend.h"
#include "backends/backend_module.h"
#include "core/error.h"

namespace {

class Provider final : public foretoken::BackendProvider {
 public:
  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] foretoken::Availability availability() const override { return foretoken::Availability::yes(); }
  [[nodiscard]] std::vector<foretoken::Capabilities> devices() const override { return {{}}; }
  [[nodiscard]] std::unique_ptr<foretoken::GpuBackend> open(int, const foretoken::BackendOptions&) const override {
    throw foretoken::Error(foretoken::ErrorCode::kInternalError, "the second cpu was opened");
  }
};

foretoken::BackendProvider* create_provider() { return new Provider(); }

}  // namespace

extern "C" const foretoken::BackendModule* foretoken_backend_module() {
  static constexpr foretoken::BackendModule kModule{
      .abi_version = foretoken::kBackendAbiVersion, .name = "cpu", .create_provider = create_provider};
  return &kModule;
}
