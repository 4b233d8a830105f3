// The runtime of HIP under the names that backends/gpu/host uses.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "backends/command_list.h"

/// Where the host code of this backend lies: each backend has types of its own, so that none takes another's for its own.
#define FORETOKEN_GPU_NAMESPACE hip

namespace foretoken::hip::runtime {

inline constexpr std::string_view kName = "hip";
inline constexpr std::string_view kTitle = "HIP";

using Status = hipError_t;
using Stream = hipStream_t;
using Event = hipEvent_t;
using Graph = hipGraph_t;
using GraphExec = hipGraphExec_t;

inline constexpr Status kSuccess = hipSuccess;
inline constexpr Status kNotReady = hipErrorNotReady;
inline constexpr Status kOutOfMemory = hipErrorOutOfMemory;
inline constexpr Status kUnloading = hipErrorDeinitialized;  // the process is going down

/// What a call came to, and what it is called in errors.
struct Result {
  Status status;
  std::string_view call;
  [[nodiscard]] bool failed() const { return status != kSuccess; }
};

inline const char* error_name(Status status) { return hipGetErrorName(status); }
inline const char* error_text(Status status) { return hipGetErrorString(status); }
/// Forgets the last error, which the next call would report once more.
inline void clear_error() { static_cast<void>(hipGetLastError()); }
inline bool is_no_device(Status status) { return status == hipErrorInsufficientDriver || status == hipErrorNoDevice; }
inline bool is_no_code(Status status) { return status == hipErrorNoBinaryForGpu || status == hipErrorInvalidDeviceFunction; }

inline Result set_device(int device) { return {hipSetDevice(device), "hipSetDevice"}; }
inline Result device_count(int& count) { return {hipGetDeviceCount(&count), "hipGetDeviceCount"}; }

inline Result allocate(void** data, size_t bytes) { return {hipMalloc(data, bytes), "hipMalloc"}; }
inline Result free(void* data) { return {hipFree(data), "hipFree"}; }
inline Result allocate_pinned(void** data, size_t bytes) {
  return {hipHostMalloc(data, bytes, hipHostMallocPortable), "hipHostMalloc"};
}
inline Result free_pinned(void* data) { return {hipHostFree(data), "hipHostFree"}; }
inline Result memory_info(size_t& free_bytes, size_t& total_bytes) {
  return {hipMemGetInfo(&free_bytes, &total_bytes), "hipMemGetInfo"};
}
inline Result copy_async(void* destination, const void* source, size_t bytes, Stream stream) {
  return {hipMemcpyAsync(destination, source, bytes, hipMemcpyDefault, stream), "hipMemcpyAsync"};
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
  return {hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "hipStreamCreateWithFlags"};
}
inline Result destroy(Stream stream) { return {hipStreamDestroy(stream), "hipStreamDestroy"}; }
inline Result synchronize(Stream stream) { return {hipStreamSynchronize(stream), "hipStreamSynchronize"}; }
inline Result wait_event(Stream stream, Event event) { return {hipStreamWaitEvent(stream, event, 0), "hipStreamWaitEvent"}; }

/// Whether the stream's owner captures it into a graph, or captures another so that this one may not be used.
inline Result is_captured(Stream stream, bool& captured) {
  hipStreamCaptureStatus state{};
  const Status status = hipStreamIsCapturing(stream, &state);
  captured = status == hipErrorStreamCaptureImplicit || state != hipStreamCaptureStatusNone;
  return {status == hipErrorStreamCaptureImplicit ? kSuccess : status, "hipStreamIsCapturing"};
}
/// Whether the handle stands for a stream of its own on each thread: hipStreamPerThread, which HIP's headers for NVIDIA lack.
inline bool is_of_each_thread(Stream stream) { return reinterpret_cast<uintptr_t>(stream) == 2; }

inline Result create_event(Event& event, bool keeps_time) {
  return {hipEventCreateWithFlags(&event, keeps_time ? hipEventDefault : hipEventDisableTiming), "hipEventCreateWithFlags"};
}
inline Result destroy(Event event) { return {hipEventDestroy(event), "hipEventDestroy"}; }
inline Result record(Event event, Stream stream) { return {hipEventRecord(event, stream), "hipEventRecord"}; }
inline Result query(Event event) { return {hipEventQuery(event), "hipEventQuery"}; }
inline Result synchronize(Event event) { return {hipEventSynchronize(event), "hipEventSynchronize"}; }
inline Result elapsed(float& milliseconds, Event from, Event to) {
  return {hipEventElapsedTime(&milliseconds, from, to), "hipEventElapsedTime"};
}

inline Result begin_capture(Stream stream) {
  return {hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal), "hipStreamBeginCapture"};
}
inline Result end_capture(Stream stream, Graph& graph) { return {hipStreamEndCapture(stream, &graph), "hipStreamEndCapture"}; }
inline Result destroy(Graph graph) { return {hipGraphDestroy(graph), "hipGraphDestroy"}; }
inline Result instantiate(GraphExec& exec, Graph graph) {
  return {hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0), "hipGraphInstantiate"};
}
/// Nothing: HIP brings a graph to the device at its first launch.
inline Result upload(GraphExec /*exec*/, Stream /*stream*/) { return {kSuccess, "hipGraphUpload"}; }
inline Result launch(GraphExec exec, Stream stream) { return {hipGraphLaunch(exec, stream), "hipGraphLaunch"}; }
inline Result destroy(GraphExec exec) { return {hipGraphExecDestroy(exec), "hipGraphExecDestroy"}; }

/// Architectures are their names read as hexadecimal numbers, 0x90a for gfx90a; on devices of NVIDIA 90 for sm_90.
[[nodiscard]] std::string architecture_name(uint32_t architecture);
[[nodiscard]] uint32_t family_of(uint32_t architecture);

/// What the runtime knows of a kernel that it has loaded.
struct KernelFacts {
  size_t group_memory = 0;    // bytes that it has of its own
  uint32_t architecture = 0;  // whose instructions its code was compiled for
};
inline Result kernel_facts(const void* function, KernelFacts& facts) {
  hipFuncAttributes attributes{};
  const Status status = hipFuncGetAttributes(&attributes, function);
  facts = {.group_memory = attributes.sharedSizeBytes, .architecture = UINT32_MAX};  // code is for the device or not there
  return {status, "hipFuncGetAttributes"};
}
/// Lets launches of a kernel ask for so much group memory.
inline Result allow_group_memory(const void* function, size_t bytes) {
  return {hipFuncSetAttribute(function, hipFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "hipFuncSetAttribute"};
}

/// No kernel of HIP is launched before the one in front has ended.
inline Result launches_early(int /*device*/, bool& early) {
  early = false;
  return {kSuccess, "hipDeviceGetAttribute"};
}
inline Result launch(const void* function, Grid grid, uint32_t num_threads, void** arguments, Stream stream, bool /*early*/) {
  return {hipLaunchKernel(function, dim3(grid.x, grid.y, grid.z), dim3(num_threads), arguments, grid.group_memory, stream),
          "hipLaunchKernel"};
}

}  // namespace foretoken::hip::runtime
