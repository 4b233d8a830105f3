// Owners of the handles of the CUDA runtime. Move-only; destructors log and do not throw.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <type_traits>

#include "backends/cuda/cuda_error.h"

namespace foretoken::cuda {

struct DestroyStream {
  void operator()(cudaStream_t stream) const noexcept { check_in_destructor(cudaStreamDestroy(stream), "cudaStreamDestroy"); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const noexcept { check_in_destructor(cudaEventDestroy(event), "cudaEventDestroy"); }
};
struct DestroyGraph {
  void operator()(cudaGraph_t graph) const noexcept { check_in_destructor(cudaGraphDestroy(graph), "cudaGraphDestroy"); }
};
struct DestroyGraphExec {
  void operator()(cudaGraphExec_t exec) const noexcept {
    check_in_destructor(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  }
};
struct FreePinned {
  void operator()(std::byte* data) const noexcept { check_in_destructor(cudaFreeHost(data), "cudaFreeHost"); }
};

using StreamHandle = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using EventHandle = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
using GraphHandle = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;
using GraphExecHandle = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraphExec>;
using PinnedMemory = std::unique_ptr<std::byte[], FreePinned>;

/// A stream of the current device that does not wait for the default stream.
[[nodiscard]] inline StreamHandle make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return StreamHandle(stream);
}

/// `flags`: cudaEventDefault keeps times, cudaEventDisableTiming does not.
[[nodiscard]] inline EventHandle make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return EventHandle(event);
}

[[nodiscard]] inline PinnedMemory make_pinned(size_t bytes) {
  void* data = nullptr;
  check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  return PinnedMemory(static_cast<std::byte*>(data));
}

}  // namespace foretoken::cuda
