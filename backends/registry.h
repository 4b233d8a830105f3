// Which backends and devices this machine has, and how one is chosen at start-up.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"

namespace foretoken {

/// One backend as found at start-up.
struct BackendReport {
  std::string name;
  std::string origin;  // "built in", or the path of the module
  Availability available = Availability::yes();
  std::vector<Capabilities> devices;
};

/// Holds the built-in CPU and every module found. Thread-safe after construction. Backends that it opened must not outlive it.
class BackendRegistry {
 public:
  /// Loads the modules (files `libforetoken_backend_*.so`) of each directory; one that cannot load is reported with its reason
  /// and skipped.
  explicit BackendRegistry(const std::vector<std::filesystem::path>& module_directories);
  ~BackendRegistry();
  BackendRegistry(const BackendRegistry&) = delete;
  BackendRegistry& operator=(const BackendRegistry&) = delete;

  /// The registry of this process: modules from FORETOKEN_BACKEND_PATH (a colon-separated list) or, when that is unset, from
  /// lib/foretoken of the installation or build folder that this code was loaded from; where that is a program, from `foretoken/`
  /// beside it too.
  static BackendRegistry& instance();

  [[nodiscard]] std::vector<BackendReport> report() const;

  /// Opens a device: "auto" (the first of cuda, hip, vulkan with a usable discrete or integrated GPU, else cpu), "cpu", "cuda",
  /// "cuda:1", "vulkan:llvmpipe", ... A name alone stands for the first GPU; a device that is none is opened by its number or by
  /// part of its name (in any case) only. An empty `selector` takes FORETOKEN_BACKEND, else "auto". Throws InvalidArgument for a
  /// backend or a device that is not there and for a part of several names (lists those that are), and Unsupported with the
  /// reason for one that cannot run. With `options.vulkan` the device is the caller's: `selector` is then "vulkan" or empty
  /// (InvalidArgument).
  [[nodiscard]] std::unique_ptr<GpuBackend> open(std::string_view selector, const BackendOptions& options = {}) const;

 private:
  struct Entry;

  /// The backend of this name, of several the one that could be loaded. Throws InvalidArgument that lists those that are there.
  [[nodiscard]] const Entry& find(std::string_view name) const;
  [[nodiscard]] std::unique_ptr<GpuBackend> open_auto(const BackendOptions& options) const;
  [[nodiscard]] std::unique_ptr<GpuBackend> open_adopted(std::string_view selector, const BackendOptions& options) const;

  std::vector<Entry> entries_;
};

}  // namespace foretoken
