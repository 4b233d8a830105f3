#include "backends/cpu/cpu_event.h"

#include "backends/cpu/cpu_command_list.h"
#include "core/error.h"

namespace foretoken::cpu {

void CpuEvent::set(std::optional<std::string> fault) {
  const std::scoped_lock lock(mutex_);
  time_ = Clock::now();
  fault_ = std::move(fault);
}

std::optional<std::string> CpuEvent::fault() const {
  const std::scoped_lock lock(mutex_);
  return fault_;
}

void CpuEvent::synchronize() {
  RecordingCommandList::refuse_while_recording("waiting for an event");
  if (const auto message = fault()) throw Error(ErrorCode::kDeviceError, *message);
}

double CpuEvent::elapsed_us(const Event& earlier) const {
  const auto* start = dynamic_cast<const CpuEvent*>(&earlier);
  if (start == nullptr) throw Error(ErrorCode::kInvalidArgument, "elapsed time between events of two backends");
  return std::chrono::duration<double, std::micro>(time() - start->time()).count();
}

CpuEvent::Clock::time_point CpuEvent::time() const {
  const std::scoped_lock lock(mutex_);
  if (!time_) throw Error(ErrorCode::kInvalidState, "elapsed time of an event that was never recorded");
  return *time_;
}

}  // namespace foretoken::cpu
