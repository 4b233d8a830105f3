// Threads that run one function together, with barriers inside that cost about as much as a cache line on its way.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace foretoken::cpu {

/// Workers spin for a while after each region and then sleep. Threads are not pinned.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;

  /// Starts `num_threads` - 1 threads (1 .. kMaxThreads); whoever calls `run` is the remaining one. `spin` is false when there
  /// are fewer cores than threads: waiting threads then give way at once.
  ThreadPool(int num_threads, bool spin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int num_threads() const { return num_threads_; }

  /// Runs `fn(worker)` on all workers at once, the caller being worker 0, and returns when all are done. `fn` must not throw.
  /// Calls from several threads take turns; a pool of one thread takes no lock.
  template <class Fn>
  void run(Fn&& fn) {
    if (num_threads_ == 1) {
      fn(0);
      return;
    }
    using Function = std::remove_reference_t<Fn>;
    run_region([](void* context, int worker) { (*static_cast<Function*>(context))(worker); }, &fn);
  }

  /// Inside `run`: waits until every worker has made this call as often as this one.
  void barrier(int worker);

 private:
  // Two cache lines: processors fetch lines in pairs.
  struct alignas(128) Flag {
    std::atomic<uint32_t> value{0};
  };
  static constexpr size_t kMaxRounds = 10;
  // In round r of a barrier, worker w signals worker w + 2^r and is signalled by worker w - 2^r (dissemination barrier). Flags
  // count barriers, so they are never reset.
  struct alignas(128) Worker {
    uint32_t num_barriers = 0;
    std::array<Flag, kMaxRounds> signals;
  };
  using Call = void (*)(void* context, int worker);

  void run_region(Call call, void* context);
  void begin_region();
  void wait_region(uint32_t seen);
  void worker_main(int worker);
  void wait_signal(const std::atomic<uint32_t>& signal, uint32_t count) const;

  int num_threads_;
  int barrier_spins_;
  int idle_spins_;
  std::vector<Worker> workers_;
  std::mutex region_mutex_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  Flag region_;        // counts regions
  Flag num_sleeping_;  // threads that wait for a region in the kernel
  std::vector<std::jthread> threads_;
};

}  // namespace foretoken::cpu
