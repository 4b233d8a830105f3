// What HIP devices can do: those of AMD, or where this build is for HIP on NVIDIA, NVIDIA's.
#include <string>

#include "backends/gpu/host/devices.h"
#include "backends/gpu/host/error.h"
#include "backends/hip/hip_architecture.h"
#include "backends/hip/kernels/kernels.h"

namespace foretoken::hip {
namespace {

hipDeviceProp_t properties_of(int device) {
  hipDeviceProp_t properties{};
  check({hipGetDeviceProperties(&properties, device), "hipGetDeviceProperties"});
  return properties;
}

#if defined(__HIP_PLATFORM_NVIDIA__)
uint32_t architecture_of(const hipDeviceProp_t& properties) {
  return static_cast<uint32_t>(properties.major * 10 + properties.minor);
}

std::vector<WeightFormatSupport> weight_formats(uint32_t /*architecture*/) {
  return amd_weight_formats(0x90a);  // the same kernels: sm_80, the first that is compiled for, has what they need
}

std::string missing_matrix(uint32_t architecture) {
  return architecture >= 80 ? "" : "BF16 matrices are multiplied from sm_80 on";
}

std::string driver_text(int version) {
  return "HIP on CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
#else
uint32_t architecture_of(const hipDeviceProp_t& properties) { return amd_architecture(properties.gcnArchName); }

std::vector<WeightFormatSupport> weight_formats(uint32_t architecture) { return amd_weight_formats(architecture); }

std::string missing_matrix(uint32_t architecture) { return amd_missing_matrix_instructions(architecture); }

std::string driver_text(int version) {
  return "HIP " + std::to_string(version / 10'000'000) + "." + std::to_string(version / 100'000 % 100);
}
#endif

}  // namespace

std::string missing_matrix_instructions(uint32_t architecture) { return missing_matrix(architecture); }

namespace runtime {

#if defined(__HIP_PLATFORM_NVIDIA__)
std::string architecture_name(uint32_t architecture) { return "sm_" + std::to_string(architecture); }
uint32_t family_of(uint32_t architecture) { return architecture / 10; }
#else
std::string architecture_name(uint32_t architecture) { return amd_name(architecture); }
uint32_t family_of(uint32_t architecture) { return architecture >> 8; }
#endif

}  // namespace runtime

DeviceLimits device_limits(int device) {
  const hipDeviceProp_t properties = properties_of(device);
  return {.architecture = architecture_of(properties), .max_group_memory = static_cast<uint32_t>(properties.sharedMemPerBlock)};
}

Capabilities device_capabilities(int device) {
  const hipDeviceProp_t properties = properties_of(device);
  int driver = 0;
  check({hipDriverGetVersion(&driver), "hipDriverGetVersion"});
  int integrated = 0;
  check({hipDeviceGetAttribute(&integrated, hipDeviceAttributeIntegrated, device), "hipDeviceGetAttribute"});
  const uint32_t architecture = architecture_of(properties);

  Capabilities caps;
  caps.backend = runtime::kName;
  caps.device_name = properties.name;
  caps.driver = driver_text(driver);
  caps.instruction_set = runtime::architecture_name(architecture);
  caps.kind = integrated != 0 ? DeviceKind::kIntegratedGpu : DeviceKind::kDiscreteGpu;
  caps.total_memory_bytes = properties.totalGlobalMem;
  caps.num_compute_units = static_cast<uint32_t>(properties.multiProcessorCount);
  caps.max_group_memory = static_cast<uint32_t>(properties.sharedMemPerBlock);
  caps.subgroup_sizes = {static_cast<uint32_t>(properties.warpSize)};
  caps.activation_dtypes = {DType::kBF16, DType::kF32};
  caps.weight_formats = weight_formats(architecture);
  const std::string missing = missing_matrix_instructions(architecture);
  caps.bf16_prefill = missing.empty() ? Availability::yes() : Availability::no(missing);
  return caps;
}

}  // namespace foretoken::hip
