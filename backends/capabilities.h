// What a device can do, as data. Every "no" carries its reason.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/linear_weight.h"

namespace foretoken {

/// Yes, or no with a reason.
class Availability {
 public:
  static Availability yes() { return Availability({}); }
  /// `reason` must say what is missing, for example "no AVX2 on this CPU".
  static Availability no(std::string reason) { return Availability(std::move(reason)); }

  [[nodiscard]] explicit operator bool() const { return reason_.empty(); }
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  explicit Availability(std::string reason) : reason_(std::move(reason)) {}
  std::string reason_;
};

/// How a device treats one weight format.
struct WeightFormatSupport {
  WeightFormat format = WeightFormat::kBF16;
  Availability storable = Availability::yes();  // kernels that read it exist
  Availability fast = Availability::yes();      // reading it is faster than reading BF16
  Availability native = Availability::yes();    // the hardware converts or multiplies it itself
};

enum class DeviceKind : uint8_t { kCpu, kIntegratedGpu, kDiscreteGpu, kOther };

struct Capabilities {
  std::string backend;          // "cpu", "cuda", ...
  std::string device_name;      // "AMD EPYC ...", "NVIDIA H200"
  std::string driver;           // version text, may be empty
  std::string instruction_set;  // "avx512", "sm_90a", ...
  DeviceKind kind = DeviceKind::kOther;
  uint64_t total_memory_bytes = 0;
  uint32_t num_compute_units = 0;        // threads of the pool, multiprocessors
  uint32_t max_group_memory = 0;         // bytes that a work group may share; 0 where there are no work groups
  std::vector<uint32_t> subgroup_sizes;  // lanes that kernels may use
  std::vector<DType> activation_dtypes;  // that linear layers take, best first; at least one
  std::vector<WeightFormatSupport> weight_formats;
  Availability bf16_prefill =
      Availability::yes();            // matrix hardware for prefill with BF16 activations, faster than the exact kernels
  std::vector<std::string> features;  // further named features, for people

  /// Support of one format; a format that is not listed is not storable, for the reason "not implemented by this backend".
  [[nodiscard]] WeightFormatSupport weight_format(WeightFormat format) const;
  /// The storable formats as text, "f32, bf16"; "none: this device stores no weights" where there is none.
  [[nodiscard]] std::string usable_formats() const;
  /// Throws Unsupported unless `format` is storable. The message begins with `where` (a file, an option; may be empty) and names
  /// `what` is in the format ("tensor mtp.fc.weight"), this device, the reason, and the formats that it could use.
  void require_storable(WeightFormat format, std::string_view what, std::string_view where) const;
  /// The dtype of the inputs of linear layers: the one asked for, else the best. Throws Unsupported that names those this device
  /// takes when the one asked for is not among them.
  [[nodiscard]] DType activation_dtype(std::optional<DType> asked) const;
};

}  // namespace foretoken
