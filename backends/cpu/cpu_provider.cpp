#include "backends/cpu/cpu_provider.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/cpu_info.h"
#include "backends/cpu/cpu_info_limits.h"
#include "core/error.h"

namespace foretoken::cpu {
namespace {

class CpuProvider final : public BackendProvider {
 public:
  [[nodiscard]] std::string name() const override { return "cpu"; }

  [[nodiscard]] Availability availability() const override {
    try {
      static_cast<void>(select_isa(forced_isa()));
      return Availability::yes();
    } catch (const Error& error) {
      return Availability::no(error.what());
    }
  }

  [[nodiscard]] std::vector<Capabilities> devices() const override {
    if (!availability()) return {};
    return {cpu_capabilities(select_isa(forced_isa()), usable_cores())};
  }

  [[nodiscard]] std::unique_ptr<GpuBackend> open(int device_index, const BackendOptions& options) const override {
    if (device_index != 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  {.what = "no such CPU device", .expected = "cpu:0", .got = "cpu:" + std::to_string(device_index)});
    }
    return std::make_unique<CpuBackend>(options, is_eager());
  }

 private:
  static bool is_eager() {
    const char* value = std::getenv("FORETOKEN_EAGER");
    return value != nullptr && std::string_view(value) == "1";
  }

  static const char* forced_isa() { return std::getenv("FORETOKEN_CPU_ISA"); }
};

}  // namespace

std::unique_ptr<BackendProvider> make_cpu_provider() { return std::make_unique<CpuProvider>(); }

}  // namespace foretoken::cpu
