// A point in a stream's work.
#pragma once

namespace foretoken {

class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  /// Whether the work before the last Stream::record(event) has finished; true when it was never recorded.
  [[nodiscard]] virtual bool is_complete() const = 0;
  /// Waits for that work. Throws DeviceError when it failed.
  virtual void synchronize() = 0;
  /// Device time from `earlier` to this event in microseconds; both must be complete (InvalidState).
  [[nodiscard]] virtual double elapsed_us(const Event& earlier) const = 0;
};

}  // namespace foretoken
