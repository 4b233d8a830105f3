#include "backends/cuda/cuda_buffer.h"

#include <algorithm>
#include <string>

#include "backends/cuda/cuda_error.h"
#include "core/error.h"

namespace foretoken::cuda {
namespace {

// An empty buffer has an address of its own too.
constexpr size_t kSmallestAllocation = 256;

[[noreturn]] void throw_out_of_memory(size_t bytes, MemoryKind kind, size_t free_bytes, const std::string& reason) {
  const bool on_device = kind == MemoryKind::kDevice;
  const std::string memory = on_device ? "device memory" : "pinned host memory";
  throw Error(ErrorCode::kOutOfMemory,
              "cannot allocate " + std::to_string(bytes) + " bytes of " + memory +
                  (on_device ? ", " + std::to_string(free_bytes) + " bytes are free" : ", what is free is the host's to say") +
                  (reason.empty() ? "" : ": " + reason));
}

}  // namespace

CudaBuffer::CudaBuffer(int device, size_t bytes, MemoryKind kind, std::atomic<size_t>& allocated)
    : device_(device), bytes_(bytes), kind_(kind), allocated_(allocated) {
  use_device(device);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (kind == MemoryKind::kDevice && bytes > total_bytes) throw_out_of_memory(bytes, kind, free_bytes, {});
  const size_t wanted = std::max(bytes, kSmallestAllocation);
  const cudaError_t status =
      kind == MemoryKind::kDevice ? cudaMalloc(&data_, wanted) : cudaHostAlloc(&data_, wanted, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw_out_of_memory(bytes, kind, free_bytes, describe(status));
  }
  check(status, kind == MemoryKind::kDevice ? "cudaMalloc" : "cudaHostAlloc");
  allocated_.fetch_add(bytes_, std::memory_order_relaxed);
}

CudaBuffer::~CudaBuffer() {
  check_in_destructor(cudaSetDevice(device_), "cudaSetDevice");
  if (kind_ == MemoryKind::kDevice) {
    check_in_destructor(cudaFree(data_), "cudaFree");
  } else {
    check_in_destructor(cudaFreeHost(data_), "cudaFreeHost");
  }
  allocated_.fetch_sub(bytes_, std::memory_order_relaxed);
}

}  // namespace foretoken::cuda
