// What people see on stderr: errors, notes, and a progress line for what takes long.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace foretoken::cli {

/// `foretoken: <kind>: <message>` on stderr, after clearing a progress line.
void print_message(std::string_view kind, std::string_view message);

/// Flushes stdout. Throws DeviceError when it could not take what was written (a full disk).
void finish_stdout();

/// From here on SIGINT and SIGTERM are noted instead of ending the process.
void note_interrupts();
/// Throws InvalidState that says that `output` is taken back, once such a signal came.
void stop_if_interrupted(std::string_view output);

/// A line on stderr that tells how far a long operation is: only on a terminal, only after a second, gone when destroyed.
class Progress {
 public:
  /// `what`: "loading DIR".
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t bytes_done, uint64_t bytes_total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool is_terminal_;
  bool is_shown_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  Clock::time_point first_byte_ = begin_;  // where the rate counts from: memory is reserved before
};

}  // namespace foretoken::cli
