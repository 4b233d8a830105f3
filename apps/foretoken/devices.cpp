// `foretoken devices`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/options.h"
#include "backends/registry.h"

namespace foretoken::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu: return "cpu";
    case DeviceKind::kIntegratedGpu: return "integrated gpu";
    case DeviceKind::kDiscreteGpu: return "discrete gpu";
    case DeviceKind::kOther: return "other";
  }
  return "other";
}

Json to_json(const Availability& availability) {
  Json json{{"available", static_cast<bool>(availability)}};
  if (!availability) json["reason"] = availability.reason();
  return json;
}

Json to_json(const Capabilities& device, const std::string& selector) {
  Json formats = Json::array();
  for (const WeightFormatSupport& support : device.weight_formats) {
    formats.push_back({{"format", to_string(support.format)},
                       {"storable", to_json(support.storable)},
                       {"fast", to_json(support.fast)},
                       {"native", to_json(support.native)}});
  }
  Json activations = Json::array();
  for (const DType dtype : device.activation_dtypes) activations.push_back(to_string(dtype));
  return {{"selector", selector},
          {"name", device.device_name},
          {"kind", kind_name(device.kind)},
          {"driver", device.driver},
          {"instruction_set", device.instruction_set},
          {"memory_bytes", device.total_memory_bytes},
          {"compute_units", device.num_compute_units},
          {"subgroup_sizes", device.subgroup_sizes},
          {"activation_dtypes", activations},
          {"bf16_prefill", to_json(device.bf16_prefill)},
          {"features", device.features},
          {"weight_formats", formats}};
}

std::string words(const Availability& availability, std::string_view yes) {
  return availability ? std::string(yes) : fmt::format("not {} ({})", yes, availability.reason());
}

void print_device(const Capabilities& device, const std::string& selector) {
  fmt::print("  {}  {}, {}", selector, device.device_name, kind_name(device.kind));
  if (!device.instruction_set.empty()) fmt::print(", {}", device.instruction_set);
  if (!device.driver.empty()) fmt::print(", driver {}", device.driver);
  fmt::print("\n    memory        {:.1f} GB, {} compute units\n", static_cast<double>(device.total_memory_bytes) / 1e9,
             device.num_compute_units);
  if (!device.features.empty()) fmt::print("    features      {}\n", fmt::join(device.features, ", "));
  fmt::print("    bf16 prefill  {}\n", device.bf16_prefill ? "yes" : "no: " + device.bf16_prefill.reason());
  for (const WeightFormatSupport& support : device.weight_formats) {
    if (!support.storable) {
      fmt::print("    {:<12}  {}\n", to_string(support.format), words(support.storable, "storable"));
      continue;
    }
    fmt::print("    {:<12}  storable; {}; {}\n", to_string(support.format), words(support.fast, "fast"),
               words(support.native, "native"));
  }
}

void print_text(const std::vector<BackendReport>& reports) {
  for (const BackendReport& backend : reports) {
    fmt::print("{} ({}){}\n", backend.name, backend.origin,
               backend.available ? "" : ": not available: " + backend.available.reason());
    for (size_t i = 0; i < backend.devices.size(); ++i) print_device(backend.devices[i], fmt::format("{}:{}", backend.name, i));
  }
}

void print_json(const std::vector<BackendReport>& reports) {
  Json backends = Json::array();
  for (const BackendReport& backend : reports) {
    Json devices = Json::array();
    for (size_t i = 0; i < backend.devices.size(); ++i) {
      devices.push_back(to_json(backend.devices[i], fmt::format("{}:{}", backend.name, i)));
    }
    Json entry{{"name", backend.name}, {"origin", backend.origin}};
    entry.update(to_json(backend.available));
    entry["devices"] = devices;
    backends.push_back(entry);
  }
  fmt::print("{}\n", Json{{"backends", backends}}.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

int run_devices(const Options& options) {
  const std::vector<BackendReport> reports = BackendRegistry::instance().report();
  if (options.flag("json")) {
    print_json(reports);
  } else {
    print_text(reports);
  }
  return kExitOk;
}

}  // namespace foretoken::cli
