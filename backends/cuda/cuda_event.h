// A point in the work of a CUDA stream.
#pragma once

#include <atomic>

#include "backends/cuda/cuda_handles.h"
#include "backends/event.h"

namespace foretoken::cuda {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int device);

  [[nodiscard]] bool is_complete() const override;
  void synchronize() override;
  [[nodiscard]] double elapsed_us(const Event& earlier) const override;

  /// Marks the present end of `stream`.
  void record(cudaStream_t stream);
  [[nodiscard]] cudaEvent_t get() const { return event_.get(); }

 private:
  int device_;
  EventHandle event_;
  std::atomic<bool> recorded_{false};
};

}  // namespace foretoken::cuda
