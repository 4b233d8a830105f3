#include "backends/cuda/cuda_event.h"

#include "backends/cuda/cuda_command_list.h"
#include "core/error.h"

namespace foretoken::cuda {

CudaEvent::CudaEvent(int device) : device_(device) {
  use_device(device);
  event_ = make_event(cudaEventDefault);
}

bool CudaEvent::is_complete() const {
  CudaCommandList::refuse_while_recording("asking for an event");
  use_device(device_);
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

void CudaEvent::synchronize() {
  CudaCommandList::refuse_while_recording("waiting for an event");
  use_device(device_);
  check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize");
}

double CudaEvent::elapsed_us(const Event& earlier) const {
  const auto* start = dynamic_cast<const CudaEvent*>(&earlier);
  if (start == nullptr) throw Error(ErrorCode::kInvalidArgument, "elapsed time between events of two backends");
  if (!start->recorded_ || !recorded_) throw Error(ErrorCode::kInvalidState, "elapsed time of an event that was never recorded");
  CudaCommandList::refuse_while_recording("asking for an event");
  use_device(device_);
  float milliseconds = 0.0F;
  const cudaError_t status = cudaEventElapsedTime(&milliseconds, start->event_.get(), event_.get());
  if (status == cudaErrorNotReady) throw Error(ErrorCode::kInvalidState, "elapsed time of an event that is not complete");
  check(status, "cudaEventElapsedTime");
  return double{milliseconds} * 1e3;
}

void CudaEvent::record(cudaStream_t stream) {
  check(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
  recorded_ = true;
}

}  // namespace foretoken::cuda
