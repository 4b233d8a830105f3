#include "backends/gpu/host/event.h"

#include "backends/gpu/host/command_list.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {

RuntimeEvent::RuntimeEvent(int device) : device_(device) {
  use_device(device);
  event_ = make_event(/*keeps_time=*/true);
}

bool RuntimeEvent::is_complete() const {
  RuntimeCommandList::refuse_while_recording("asking for an event");
  use_device(device_);
  const runtime::Result result = runtime::query(event_.get());
  if (result.status == runtime::kNotReady) return false;
  check(result);
  return true;
}

void RuntimeEvent::synchronize() {
  RuntimeCommandList::refuse_while_recording("waiting for an event");
  use_device(device_);
  check(runtime::synchronize(event_.get()));
}

double RuntimeEvent::elapsed_us(const Event& earlier) const {
  const auto* start = dynamic_cast<const RuntimeEvent*>(&earlier);
  if (start == nullptr) throw Error(ErrorCode::kInvalidArgument, "elapsed time between events of two backends");
  if (!start->recorded_ || !recorded_) throw Error(ErrorCode::kInvalidState, "elapsed time of an event that was never recorded");
  RuntimeCommandList::refuse_while_recording("asking for an event");
  use_device(device_);
  float milliseconds = 0.0F;
  const runtime::Result result = runtime::elapsed(milliseconds, start->event_.get(), event_.get());
  if (result.status == runtime::kNotReady) throw Error(ErrorCode::kInvalidState, "elapsed time of an event that is not complete");
  check(result);
  return double{milliseconds} * 1e3;
}

void RuntimeEvent::record(runtime::Stream stream) {
  check(runtime::record(event_.get(), stream));
  recorded_ = true;
}

}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
