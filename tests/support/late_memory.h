// The memory of the late device: one range of addresses that cannot be touched unless the device is at work.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "core/tensor.h"

namespace foretoken::test {

/// Thread-safe.
class LateMemory {
 public:
  LateMemory();
  ~LateMemory();
  LateMemory(const LateMemory&) = delete;
  LateMemory& operator=(const LateMemory&) = delete;

  /// Page-aligned memory, filled with a pattern. Throws OutOfMemory.
  [[nodiscard]] std::byte* allocate(size_t bytes);
  void free(std::byte* data, size_t bytes);
  [[nodiscard]] size_t allocated_bytes() const;

  /// Memory may be touched while one of these lives.
  class Open {
   public:
    explicit Open(LateMemory& memory);
    ~Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    LateMemory& memory_;
  };

 private:
  void protect(bool open);

  mutable std::mutex mutex_;
  std::byte* base_;
  std::map<size_t, size_t> free_;  // offset -> bytes, never two in a row
  size_t used_end_ = 0;            // nothing was ever allocated from here on
  size_t allocated_bytes_ = 0;
  int num_open_ = 0;
};

}  // namespace foretoken::test
