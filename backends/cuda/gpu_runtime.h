// The runtime of CUDA under the names that backends/gpu/host uses. The host code of a GPU backend is one text, compiled for each
// runtime of this kind with its own header of this name.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "backends/command_list.h"

/// Where the host code of this backend lies: each backend has types of its own, so that none takes another's for its own.
#define FORETOKEN_GPU_NAMESPACE cuda

namespace foretoken::cuda::runtime {

inline constexpr std::string_view kName = "cuda";
inline constexpr std::string_view kTitle = "CUDA";

using Status = cudaError_t;
using Stream = cudaStream_t;
using Event = cudaEvent_t;
using Graph = cudaGraph_t;
using GraphExec = cudaGraphExec_t;

inline constexpr Status kSuccess = cudaSuccess;
inline constexpr Status kNotReady = cudaErrorNotReady;
inline constexpr Status kOutOfMemory = cudaErrorMemoryAllocation;
inline constexpr Status kUnloading = cudaErrorCudartUnloading;  // the process is going down

/// What a call came to, and what it is called in errors.
struct Result {
  Status status;
  std::string_view call;
  [[nodiscard]] bool failed() const { return status != kSuccess; }
};

inline const char* error_name(Status status) { return cudaGetErrorName(status); }
inline const char* error_text(Status status) { return cudaGetErrorString(status); }
/// Forgets the last error, which the next call would report once more.
inline void clear_error() { static_cast<void>(cudaGetLastError()); }
inline bool is_no_device(Status status) { return status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice; }
inline bool is_no_code(Status status) {
  return status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction;
}

inline Result set_device(int device) { return {cudaSetDevice(device), "cudaSetDevice"}; }
inline Result device_count(int& count) { return {cudaGetDeviceCount(&count), "cudaGetDeviceCount"}; }

inline Result allocate(void** data, size_t bytes) { return {cudaMalloc(data, bytes), "cudaMalloc"}; }
inline Result free(void* data) { return {cudaFree(data), "cudaFree"}; }
inline Result allocate_pinned(void** data, size_t bytes) {
  return {cudaHostAlloc(data, bytes, cudaHostAllocPortable), "cudaHostAlloc"};
}
inline Result free_pinned(void* data) { return {cudaFreeHost(data), "cudaFreeHost"}; }
inline Result memory_info(size_t& free_bytes, size_t& total_bytes) {
  return {cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"};
}
inline Result copy_async(void* destination, const void* source, size_t bytes, Stream stream) {
  return {cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync"};
}

/// Whose memory an address lies in, and how far the allocation goes on from there.
struct MemoryRange {
  int device = -1;   // -1: no device's. Managed memory is the memory of the device that asks
  size_t bytes = 0;  // known to the device that asks, of its own memory
};
/// As `device`, the current one, knows it.
[[nodiscard]] Result memory_range(uint64_t address, int device, MemoryRange& range);

/// A stream that does not wait for the default one.
inline Result create_stream(Stream& stream) {
  return {cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"};
}
inline Result destroy(Stream stream) { return {cudaStreamDestroy(stream), "cudaStreamDestroy"}; }
inline Result synchronize(Stream stream) { return {cudaStreamSynchronize(stream), "cudaStreamSynchronize"}; }
inline Result wait_event(Stream stream, Event event) { return {cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent"}; }

/// Whether the stream's owner captures it into a graph, or captures another so that this one may not be used.
inline Result is_captured(Stream stream, bool& captured) {
  cudaStreamCaptureStatus state{};
  const Status status = cudaStreamIsCapturing(stream, &state);
  captured = status == cudaErrorStreamCaptureImplicit || state != cudaStreamCaptureStatusNone;
  return {status == cudaErrorStreamCaptureImplicit ? kSuccess : status, "cudaStreamIsCapturing"};
}
/// Whether the handle stands for a stream of its own on each thread.
inline bool is_of_each_thread(Stream stream) { return stream == cudaStreamPerThread; }

inline Result create_event(Event& event, bool keeps_time) {
  return {cudaEventCreateWithFlags(&event, keeps_time ? cudaEventDefault : cudaEventDisableTiming), "cudaEventCreateWithFlags"};
}
inline Result destroy(Event event) { return {cudaEventDestroy(event), "cudaEventDestroy"}; }
inline Result record(Event event, Stream stream) { return {cudaEventRecord(event, stream), "cudaEventRecord"}; }
inline Result query(Event event) { return {cudaEventQuery(event), "cudaEventQuery"}; }
inline Result synchronize(Event event) { return {cudaEventSynchronize(event), "cudaEventSynchronize"}; }
inline Result elapsed(float& milliseconds, Event from, Event to) {
  return {cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime"};
}

inline Result begin_capture(Stream stream) {
  return {cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"};
}
inline Result end_capture(Stream stream, Graph& graph) { return {cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"}; }
inline Result destroy(Graph graph) { return {cudaGraphDestroy(graph), "cudaGraphDestroy"}; }
inline Result instantiate(GraphExec& exec, Graph graph) {
  return {cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate"};
}
/// Brings to the device what the first launch would bring.
inline Result upload(GraphExec exec, Stream stream) { return {cudaGraphUpload(exec, stream), "cudaGraphUpload"}; }
inline Result launch(GraphExec exec, Stream stream) { return {cudaGraphLaunch(exec, stream), "cudaGraphLaunch"}; }
inline Result destroy(GraphExec exec) { return {cudaGraphExecDestroy(exec), "cudaGraphExecDestroy"}; }

/// How errors call an architecture of kernel_entry.h, and which of them share their instructions.
inline std::string architecture_name(uint32_t architecture) { return "sm_" + std::to_string(architecture); }
inline constexpr uint32_t family_of(uint32_t architecture) { return architecture / 10; }

/// What the runtime knows of a kernel that it has loaded.
struct KernelFacts {
  size_t group_memory = 0;    // bytes that it has of its own
  uint32_t architecture = 0;  // whose instructions its code was compiled for
};
inline Result kernel_facts(const void* function, KernelFacts& facts) {
  cudaFuncAttributes attributes{};
  const Status status = cudaFuncGetAttributes(&attributes, function);
  facts = {.group_memory = attributes.sharedSizeBytes, .architecture = static_cast<uint32_t>(attributes.ptxVersion)};
  return {status, "cudaFuncGetAttributes"};
}
/// Lets launches of a kernel ask for so much group memory.
inline Result allow_group_memory(const void* function, size_t bytes) {
  return {cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "cudaFuncSetAttribute"};
}

/// Whether kernels may be launched before the one in front has ended (sm_90 and later).
inline Result launches_early(int device, bool& early) {
  int major = 0;
  const Status status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  early = major >= 9;
  return {status, "cudaDeviceGetAttribute"};
}
/// `early`: the kernel may start while the one before ends, and waits for it itself.
inline Result launch(const void* function, Grid grid, uint32_t num_threads, void** arguments, Stream stream, bool early) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = {grid.x, grid.y, grid.z};
  config.blockDim = {num_threads, 1, 1};
  config.dynamicSmemBytes = grid.group_memory;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return {cudaLaunchKernelExC(&config, function, arguments), "cudaLaunchKernelExC"};
}

}  // namespace foretoken::cuda::runtime
