#include "apps/foretoken/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "core/error.h"

namespace foretoken::cli {
namespace {

constexpr std::chrono::milliseconds kFirstLine{1000};
constexpr std::chrono::milliseconds kRefresh{100};
constexpr std::string_view kClearLine = "\r\x1b[K";

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int) { interrupted = 1; }

}  // namespace

void print_message(std::string_view kind, std::string_view message) {
  std::string line = fmt::format("foretoken: {}: {}\n", kind, message);
  for (size_t i = 0; i + 1 < line.size(); ++i) {  // what files and arguments bring along must not steer the terminal
    if (static_cast<unsigned char>(line[i]) < 0x20 && line[i] != '\n') line[i] = '?';
  }
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void note_interrupts() {
  std::signal(SIGINT, note_interrupt);
  std::signal(SIGTERM, note_interrupt);
}

void stop_if_interrupted(std::string_view output) {
  if (interrupted == 0) return;
  throw Error(ErrorCode::kInvalidState, fmt::format("interrupted; what was written of {} is removed", output));
}

void finish_stdout() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw Error(ErrorCode::kDeviceError, "stdout could not take the output");
}

Progress::Progress(std::string what) : what_(std::move(what)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (is_shown_) std::fwrite(kClearLine.data(), 1, kClearLine.size(), stderr);
}

void Progress::update(uint64_t bytes_done, uint64_t bytes_total) {
  if (!is_terminal_ || bytes_total == 0) return;
  const Clock::time_point now = Clock::now();
  if (bytes_done == 0) first_byte_ = now;
  if (now - begin_ < kFirstLine || now - last_ < kRefresh) return;
  last_ = now;
  is_shown_ = true;
  const double seconds = std::max(1e-3, std::chrono::duration<double>(now - first_byte_).count());
  const auto done = static_cast<double>(bytes_done);
  const std::string line = fmt::format("{}{}: {:.0f} %, {:.1f} of {:.1f} GB, {:.2f} GB/s", kClearLine, what_,
                                       100.0 * done / static_cast<double>(bytes_total), done / 1e9,
                                       static_cast<double>(bytes_total) / 1e9, done / 1e9 / seconds);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace foretoken::cli
