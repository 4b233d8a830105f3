// Memory whose readers are watched: nobody may touch it, and a fault opens a page, for which the one that was opened longest ago
// is closed. So a page's faults are how often somebody came to it from elsewhere.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <stdexcept>
#include <vector>

#include "backends/buffer.h"

namespace foretoken::cpu {

/// Readers on one thread. Starts as zeros.
class WatchedPages final : public BufferHandle {
 public:
  /// As many pages stay open as one reader has at hand, such as those of a cache.
  explicit WatchedPages(size_t num_pages, size_t num_open = 1) : num_open_(num_open), visits_(num_pages) {
    void* memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
    memory_ = static_cast<std::byte*>(memory);
  }
  ~WatchedPages() override { munmap(memory_, bytes()); }
  WatchedPages(const WatchedPages&) = delete;
  WatchedPages& operator=(const WatchedPages&) = delete;

  [[nodiscard]] static size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  [[nodiscard]] size_t bytes() const override { return visits_.size() * page_bytes(); }
  [[nodiscard]] DeviceAddress address() const override { return reinterpret_cast<DeviceAddress>(memory_); }
  [[nodiscard]] MemoryKind kind() const override { return MemoryKind::kHostVisible; }
  [[nodiscard]] std::byte* host_data() const override { return memory_; }
  /// Of each page, since it was closed.
  [[nodiscard]] const std::vector<int>& visits() const { return visits_; }

  void close() {
    std::fill(visits_.begin(), visits_.end(), 0);
    open_.clear();
    mprotect(memory_, bytes(), PROT_NONE);
  }
  void open_all() { mprotect(memory_, bytes(), PROT_READ | PROT_WRITE); }
  /// False for an address elsewhere.
  bool visit(const void* at) {
    const auto* byte = static_cast<const std::byte*>(at);
    if (byte < memory_ || byte >= memory_ + bytes()) return false;
    const size_t page = static_cast<size_t>(byte - memory_) / page_bytes();
    if (open_.size() == num_open_) {
      mprotect(memory_ + open_.front() * page_bytes(), page_bytes(), PROT_NONE);
      open_.pop_front();
    }
    open_.push_back(page);
    mprotect(memory_ + page * page_bytes(), page_bytes(), PROT_READ);
    ++visits_[page];
    return true;
  }

 private:
  size_t num_open_;
  std::vector<int> visits_;
  std::byte* memory_ = nullptr;
  std::deque<size_t> open_;  // oldest first
};

/// The memory is closed while this lives; one at a time.
class Watch {
 public:
  explicit Watch(const std::vector<WatchedPages*>& pages) {
    watched() = pages;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &old_action_);
    for (WatchedPages* one : pages) one->close();
  }
  ~Watch() {
    for (WatchedPages* one : watched()) one->open_all();
    sigaction(SIGSEGV, &old_action_, nullptr);
    watched().clear();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  static std::vector<WatchedPages*>& watched() {
    static std::vector<WatchedPages*> pages;
    return pages;
  }
  static void on_fault(int signal, siginfo_t* info, void*) {
    for (WatchedPages* pages : watched()) {
      if (pages->visit(info->si_addr)) return;
    }
    std::signal(signal, SIG_DFL);  // not ours: the access that is tried again ends the program
  }

  struct sigaction old_action_ {};
};

}  // namespace foretoken::cpu
