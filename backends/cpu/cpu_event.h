// A point in the work of a CPU stream, which is done when the call that adds it returns.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "backends/event.h"

namespace foretoken::cpu {

/// Thread-safe.
class CpuEvent final : public Event {
 public:
  /// Marks the present; `fault` is what went wrong in the stream's work before it.
  void set(std::optional<std::string> fault);
  [[nodiscard]] std::optional<std::string> fault() const;

  [[nodiscard]] bool is_complete() const override { return true; }
  void synchronize() override;
  [[nodiscard]] double elapsed_us(const Event& earlier) const override;

 private:
  using Clock = std::chrono::steady_clock;
  /// Throws InvalidState when the event was never recorded.
  [[nodiscard]] Clock::time_point time() const;

  mutable std::mutex mutex_;
  std::optional<Clock::time_point> time_;
  std::optional<std::string> fault_;
};

}  // namespace foretoken::cpu
