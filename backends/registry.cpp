#include "backends/registry.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "backends/backend_module.h"
#include "backends/cpu/cpu_provider.h"
#include "core/code_location.h"
#include "core/error.h"
#include "core/log.h"
#include "foretoken_build_info.h"

namespace foretoken {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModulePrefix = "libforetoken_backend_";
constexpr std::string_view kModuleSuffix = ".so";
constexpr std::array<std::string_view, 3> kGpuOrder{"cuda", "hip", "vulkan"};
constexpr std::string_view kOfAdoptedDevices = "vulkan";  // the backend that opens BackendOptions::vulkan

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

struct Selector {
  std::string name;
  std::optional<std::string> device;  // its number, or part of its name
};

Selector parse_selector(std::string_view text) {
  const size_t colon = text.find(':');
  Selector selector{.name = std::string(text.substr(0, colon)), .device = std::nullopt};
  if (colon == std::string_view::npos) return selector;
  selector.device = text.substr(colon + 1);
  if (selector.device->empty() || selector.name == "auto") {
    throw Error(ErrorCode::kInvalidArgument, {.what = "backend selector",
                                              .expected = "auto, NAME, NAME:INDEX or NAME:PART OF A DEVICE'S NAME",
                                              .got = "'" + std::string(text) + "'"});
  }
  return selector;
}

/// Module files of the folders, in the order of the folders and then of their names; folders that do not exist hold none.
std::vector<fs::path> module_files(const std::vector<fs::path>& directories) {
  std::vector<fs::path> files;
  for (const fs::path& directory : directories) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name.starts_with(kModulePrefix) && name.ends_with(kModuleSuffix)) found.push_back(it->path());
    }
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

/// "cuda" for ".../libforetoken_backend_cuda.so".
std::string name_of_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.substr(kModulePrefix.size(), name.size() - kModulePrefix.size() - kModuleSuffix.size());
}

std::vector<fs::path> default_directories() {
  if (const char* paths = std::getenv("FORETOKEN_BACKEND_PATH")) {
    std::vector<fs::path> directories;
    for (std::string_view rest = paths; !rest.empty();) {
      const size_t colon = std::min(rest.find(':'), rest.size());
      if (colon > 0) directories.emplace_back(rest.substr(0, colon));
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    return directories;
  }
  const CodeLocation code = code_location();
  if (code.folder.empty()) return {};
  if (!code.in_program) return {(code.folder / kModulesFromLibrary).lexically_normal()};
  return {(code.folder / kModulesFromProgram).lexically_normal(), code.folder / "foretoken"};
}

bool is_gpu(const Capabilities& device) {
  return device.kind == DeviceKind::kDiscreteGpu || device.kind == DeviceKind::kIntegratedGpu;
}

/// The device that a backend's name alone stands for. Throws Unsupported when there is none but such as run on the CPU.
int first_gpu(const std::string& backend, const std::vector<Capabilities>& devices) {
  const auto gpu = std::ranges::find_if(devices, is_gpu);
  if (gpu != devices.end()) return static_cast<int>(gpu - devices.begin());
  if (devices.empty()) return 0;
  throw Error(ErrorCode::kUnsupported, {.what = "backend " + backend + " has no GPU",
                                        .expected = "a device by its number or name, such as " + backend + ":0, which is no GPU",
                                        .got = backend + " (its first device is " + devices.front().device_name + ")"});
}

bool contains_in_any_case(std::string_view text, std::string_view part) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return !std::ranges::search(text, part, same).empty();
}

/// Devices that `wanted` stands for: the one with that number or, where it is no number, all whose names contain it in any case.
std::vector<int> matching_devices(const std::string& wanted, const std::vector<Capabilities>& devices) {
  const bool is_number = wanted.find_first_not_of("0123456789") == std::string::npos;
  std::vector<int> found;
  for (size_t i = 0; i < devices.size(); ++i) {
    const bool is_it = is_number ? std::to_string(i) == wanted : contains_in_any_case(devices[i].device_name, wanted);
    if (is_it) found.push_back(static_cast<int>(i));
  }
  return found;
}

/// Throws InvalidArgument, with a list of the devices, unless `wanted` stands for exactly one.
int chosen_device(const std::string& backend, const std::string& wanted, const std::vector<Capabilities>& devices) {
  const std::vector<int> found = matching_devices(wanted, devices);
  if (found.size() == 1) return found.front();
  std::string list;
  for (size_t i = 0; i < devices.size(); ++i) {
    list += (i == 0 ? "one of " : ", ") + backend + ":" + std::to_string(i) + " (" + devices[i].device_name + ")";
  }
  throw Error(ErrorCode::kInvalidArgument,
              {.what = (found.empty() ? "no such device of backend " : "several devices of that name of backend ") + backend,
               .expected = list,
               .got = backend + ":" + wanted});
}

}  // namespace

struct BackendRegistry::Entry {
  std::string name;
  std::string origin;
  Library library;  // outlives the provider, whose code it holds
  std::unique_ptr<BackendProvider> provider;
  std::string load_error;  // why there is no provider

  static Entry load(const fs::path& file);

  [[nodiscard]] Availability availability() const {
    return provider == nullptr ? Availability::no(load_error) : provider->availability();
  }
};

BackendRegistry::Entry BackendRegistry::Entry::load(const fs::path& file) {
  Entry entry{.name = name_of_file(file), .origin = file.string(), .library = nullptr, .provider = nullptr, .load_error = {}};
  entry.library.reset(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (entry.library == nullptr) {
    const char* reason = dlerror();
    entry.load_error = "cannot be loaded: " + std::string(reason == nullptr ? "unknown reason" : reason);
    return entry;
  }
  const auto describe = reinterpret_cast<foretoken_backend_module_fn>(dlsym(entry.library.get(), "foretoken_backend_module"));
  const BackendModule* module = describe == nullptr ? nullptr : describe();
  if (module == nullptr) {
    entry.load_error = "exports no foretoken_backend_module";
  } else if (module->abi_version != kBackendAbiVersion) {
    entry.load_error = "was built for another version of the backend interface (expected " + std::to_string(kBackendAbiVersion) +
                       ", got " + std::to_string(module->abi_version) + ")";
  } else {
    entry.name = module->name;
    try {
      entry.provider.reset(module->create_provider());
      if (entry.provider == nullptr) entry.load_error = "made no provider";
    } catch (const std::exception& error) {
      entry.load_error = error.what();
    }
  }
  return entry;
}

BackendRegistry::BackendRegistry(const std::vector<std::filesystem::path>& module_directories) {
  entries_.push_back(
      {.name = "cpu", .origin = "built in", .library = nullptr, .provider = cpu::make_cpu_provider(), .load_error = {}});
  for (const fs::path& file : module_files(module_directories)) {
    Entry entry = Entry::load(file);
    const auto same = std::ranges::find(entries_, entry.name, &Entry::name);
    if (same != entries_.end() && entry.provider != nullptr) {
      entry.provider.reset();
      entry.load_error = "a backend of this name is there already (" + same->origin + ")";
    }
    if (entry.provider == nullptr) log().warn("backend {} ({}): {}", entry.name, entry.origin, entry.load_error);
    entries_.push_back(std::move(entry));
  }
}

BackendRegistry::~BackendRegistry() = default;

BackendRegistry& BackendRegistry::instance() {
  static BackendRegistry registry(default_directories());
  return registry;
}

std::vector<BackendReport> BackendRegistry::report() const {
  std::vector<BackendReport> reports;
  for (const Entry& entry : entries_) {
    BackendReport report{.name = entry.name, .origin = entry.origin, .available = entry.availability(), .devices = {}};
    if (report.available) report.devices = entry.provider->devices();
    reports.push_back(std::move(report));
  }
  return reports;
}

std::unique_ptr<GpuBackend> BackendRegistry::open_auto(const BackendOptions& options) const {
  for (const std::string_view name : kGpuOrder) {
    for (const Entry& entry : entries_) {
      if (entry.name != name) continue;
      if (const Availability available = entry.availability(); !available) {
        log().info("backend {}: {}", name, available.reason());
        continue;
      }
      const std::vector<Capabilities> devices = entry.provider->devices();
      const auto gpu = std::ranges::find_if(devices, is_gpu);
      if (gpu == devices.end()) continue;
      try {
        auto backend = entry.provider->open(static_cast<int>(gpu - devices.begin()), options);
        log().info("backend: {} ({})", name, gpu->device_name);
        return backend;
      } catch (const Error& error) {
        log().warn("backend {} is passed over: {}", name, error.what());
      }
    }
  }
  log().info("backend: cpu");
  return entries_.front().provider->open(0, options);
}

const BackendRegistry::Entry& BackendRegistry::find(std::string_view name) const {
  std::string names = "auto";
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    names += ", " + entry.name;
    if (entry.name == name && (found == nullptr || found->provider == nullptr)) found = &entry;
  }
  if (found == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "no such backend", .expected = "one of " + names, .got = std::string(name)});
  }
  return *found;
}

std::unique_ptr<GpuBackend> BackendRegistry::open_adopted(std::string_view selector, const BackendOptions& options) const {
  if (!selector.empty() && selector != kOfAdoptedDevices) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "backend selector with a Vulkan device of the caller",
                                              .expected = "'" + std::string(kOfAdoptedDevices) + "', or nothing",
                                              .got = "'" + std::string(selector) + "'"});
  }
  const Entry& entry = find(kOfAdoptedDevices);
  if (entry.provider == nullptr) throw Error(ErrorCode::kUnsupported, "backend " + entry.name + ": " + entry.load_error);
  return entry.provider->open(0, options);
}

std::unique_ptr<GpuBackend> BackendRegistry::open(std::string_view selector, const BackendOptions& options) const {
  if (options.vulkan) return open_adopted(selector, options);
  const char* from_environment = std::getenv("FORETOKEN_BACKEND");
  if (selector.empty() && from_environment != nullptr) selector = from_environment;
  const Selector wanted = parse_selector(selector.empty() ? "auto" : selector);
  if (wanted.name == "auto") return open_auto(options);
  const Entry& found = find(wanted.name);
  const Availability available = found.availability();
  if (!available) throw Error(ErrorCode::kUnsupported, "backend " + found.name + ": " + available.reason());
  const std::vector<Capabilities> devices = found.provider->devices();
  int index = 0;
  if (wanted.device) {
    index = chosen_device(found.name, *wanted.device, devices);
  } else if (&found != &entries_.front()) {
    index = first_gpu(found.name, devices);
  }
  return found.provider->open(index, options);
}

}  // namespace foretoken
