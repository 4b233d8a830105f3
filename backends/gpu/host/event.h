// A point in the work of a stream.
#pragma once

#include <atomic>

#include "backends/event.h"
#include "backends/gpu/host/handles.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

class RuntimeEvent final : public Event {
 public:
  explicit RuntimeEvent(int device);

  [[nodiscard]] bool is_complete() const override;
  void synchronize() override;
  [[nodiscard]] double elapsed_us(const Event& earlier) const override;

  /// Marks the present end of `stream`.
  void record(runtime::Stream stream);
  [[nodiscard]] runtime::Event get() const { return event_.get(); }

 private:
  int device_;
  EventHandle event_;
  std::atomic<bool> recorded_{false};
};

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
