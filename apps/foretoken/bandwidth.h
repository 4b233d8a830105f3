// How fast this machine's threads read memory: what decode speed is held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace foretoken::cli {

/// Reads 1 GiB or more with several threads, each bound to nothing and with a part of its own. Holds that memory while it lives.
class ReadMeter {
 public:
  /// Throws OutOfMemory.
  explicit ReadMeter(int num_threads);
  ~ReadMeter();
  ReadMeter(const ReadMeter&) = delete;
  ReadMeter& operator=(const ReadMeter&) = delete;

  /// Bytes per second that the threads reach together, each reading its part in order: the median of several passes, as times
  /// that are compared with it are medians. Throws OutOfMemory.
  [[nodiscard]] double measure();
  [[nodiscard]] size_t num_threads() const { return num_threads_; }

 private:
  class Mapping;

  size_t num_threads_;
  size_t part_bytes_;  // of a thread
  std::unique_ptr<Mapping> mapping_;
};

/// Bytes of all last-level caches of this machine together; 64 MiB where the system does not say.
[[nodiscard]] uint64_t last_level_cache_bytes();

}  // namespace foretoken::cli
