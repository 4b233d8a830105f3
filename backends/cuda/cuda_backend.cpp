#include "backends/cuda/cuda_backend.h"

#include <string>

#include "backends/cuda/cuda_buffer.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_error.h"
#include "backends/cuda/cuda_event.h"
#include "backends/cuda/cuda_program.h"
#include "backends/cuda/cuda_stream.h"

namespace foretoken::cuda {
namespace {

/// Whether kernels may be launched before the one in front has ended (sm_90 and later).
bool launches_programmatically(int device) {
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  return major >= 9;
}

}  // namespace

CudaBackend::CudaBackend(int device, bool synchronous)
    : device_(device),
      synchronous_(synchronous),
      capabilities_(device_capabilities(device)),
      kernels_(device),
      ops_(make_op_table(kernels_, device)),
      context_{.ops = ops_,
               .capabilities = capabilities_,
               .fill = kernels_.resolve<gpu::FillParams>("fill"),
               .copy = kernels_.resolve<gpu::CopyParams>("copy"),
               .programmatic_launch = launches_programmatically(device)} {}

Buffer CudaBackend::allocate(size_t bytes, MemoryKind kind) {
  CudaCommandList::refuse_while_recording("allocating memory");
  return Buffer(std::make_unique<CudaBuffer>(device_, bytes, kind, allocated_bytes_));
}

std::unique_ptr<Stream> CudaBackend::create_stream() {
  CudaCommandList::refuse_while_recording("creating a stream");
  return std::make_unique<CudaStream>(device_, context_, synchronous_);
}

std::unique_ptr<Event> CudaBackend::create_event() { return std::make_unique<CudaEvent>(device_); }

Program CudaBackend::record(std::string_view label, const RecordFn& fn) {
  CudaCommandList::refuse_while_recording("recording a second Program");
  use_device(device_);
  return Program(std::make_unique<CudaProgram>(std::string(label), fn, context_));
}

}  // namespace foretoken::cuda
