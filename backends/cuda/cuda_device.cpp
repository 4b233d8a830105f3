#include <string>

#include "backends/cuda/cublas_lt.h"
#include "backends/gpu/host/devices.h"
#include "backends/gpu/host/error.h"

namespace foretoken::cuda {
namespace {

// Compute capabilities, major * 10 + minor.
constexpr int kFirstWithFp8Conversion = 89;
constexpr int kFirstWithFp4Conversion = 100;
constexpr int kFamilyOfBlockScaledKernels = 12;

std::string sm_name(int compute_capability) { return "sm_" + std::to_string(compute_capability); }

Availability since(int first, int compute_capability, const std::string& what) {
  if (compute_capability >= first) return Availability::yes();
  return Availability::no(what + " begins with " + sm_name(first) + ", this is " + sm_name(compute_capability));
}

std::vector<WeightFormatSupport> weight_formats(int compute_capability) {
  const Availability yes = Availability::yes();
  const Availability fp8 = since(kFirstWithFp8Conversion, compute_capability, "conversion of FP8 in hardware");
  const Availability fp4 = since(kFirstWithFp4Conversion, compute_capability, "conversion of FP4 in hardware");
  return {
      {.format = WeightFormat::kF32, .storable = yes, .fast = Availability::no("twice the bytes of BF16"), .native = yes},
      {.format = WeightFormat::kBF16, .storable = yes, .fast = yes, .native = yes},
      {.format = WeightFormat::kFp8Row, .storable = yes, .fast = fp8, .native = fp8},
      {.format = WeightFormat::kFp8Block, .storable = yes, .fast = fp8, .native = fp8},
      {.format = WeightFormat::kNvfp4, .storable = yes, .fast = yes, .native = fp4},
  };
}

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

}  // namespace

DeviceLimits device_limits(int device) {
  cudaDeviceProp properties{};
  check({cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"});
  return {.architecture = static_cast<uint32_t>(properties.major * 10 + properties.minor),
          .max_group_memory = static_cast<uint32_t>(properties.sharedMemPerBlockOptin)};
}

Capabilities device_capabilities(int device) {
  cudaDeviceProp properties{};
  check({cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"});
  int driver = 0;
  check({cudaDriverGetVersion(&driver), "cudaDriverGetVersion"});
  const int compute_capability = properties.major * 10 + properties.minor;

  Capabilities caps;
  caps.backend = "cuda";
  caps.device_name = properties.name;
  caps.driver = "CUDA " + version_text(driver);
  caps.instruction_set = sm_name(compute_capability);
  caps.kind = properties.integrated != 0 ? DeviceKind::kIntegratedGpu : DeviceKind::kDiscreteGpu;
  caps.total_memory_bytes = properties.totalGlobalMem;
  caps.num_compute_units = static_cast<uint32_t>(properties.multiProcessorCount);
  caps.max_group_memory = static_cast<uint32_t>(properties.sharedMemPerBlockOptin);
  caps.subgroup_sizes = {static_cast<uint32_t>(properties.warpSize)};
  caps.activation_dtypes = {DType::kBF16, DType::kF32};
  caps.weight_formats = weight_formats(compute_capability);
  caps.bf16_prefill = Availability::yes();
  if (compute_capability >= kFirstWithFp8Conversion) caps.features.emplace_back("fp8-conversion");
  if (compute_capability >= kFirstWithFp4Conversion) {
    caps.features.emplace_back("fp4-conversion");
    const bool has_kernels = compute_capability / 10 == kFamilyOfBlockScaledKernels;
    caps.features.emplace_back(has_kernels ? "block-scaled-mma" : "block-scaled-mma (kernels for sm_120 only in this build)");
  }
  const Availability library = CublasLt::availability();
  caps.features.push_back(library ? "cublaslt " + CublasLt::version() : "no cublaslt (" + library.reason() + ")");
  return caps;
}

}  // namespace foretoken::cuda
