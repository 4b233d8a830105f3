// Threads that run one function together, with barriers inside that cost about as much as a cache line on its way.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace foretoken::cpu {

/// Workers spin for a while, in barriers and after each region, and then yield or sleep. Threads are not pinned.
///
/// A region waits for its slowest worker, and a worker whose core is busy with other processes is slow by whole time slices. So
/// when regions waited long and the system kept taking cores away from their workers, the next ones have half as many, down to
/// one. After some milliseconds all are tried again, less often each time that fails.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;

  /// Starts `num_threads` - 1 threads (1 .. kMaxThreads); whoever calls `run` is the remaining one. `spin` is false when there
  /// are fewer cores than threads: waiting threads then give way at once.
  ThreadPool(int num_threads, bool spin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Workers that a region has at most.
  [[nodiscard]] int num_threads() const { return num_threads_; }

  /// Runs `fn(worker, num_workers)` on workers 0 .. num_workers - 1 at once, the caller being worker 0, and returns when all are
  /// done. `fn` must not throw. Calls from several threads take turns; a pool of one thread takes no lock.
  template <class Fn>
  void run(Fn&& fn) {
    if (num_threads_ == 1) {
      fn(0, 1);
      return;
    }
    using Function = std::remove_reference_t<Fn>;
    run_region([](void* context, int worker, int num_workers) { (*static_cast<Function*>(context))(worker, num_workers); }, &fn);
  }

  /// Inside `run`: waits until every worker of the region has made this call as often as this one.
  void barrier(int worker);

  /// For tests, between regions: as if the last one had been starved of cores.
  void assume_starved() { starve(); }

 private:
  using Clock = std::chrono::steady_clock;
  // Two cache lines: processors fetch lines in pairs.
  struct alignas(128) Flag {
    std::atomic<uint32_t> value{0};
  };
  static constexpr size_t kMaxRounds = 10;
  // In round r of a barrier, worker w signals worker w + 2^r and is signalled by worker w - 2^r (dissemination barrier). Flags
  // count barriers, so they are never reset.
  struct alignas(128) Worker {
    uint32_t num_barriers = 0;
    int num_workers = 1;          // of the region that it has a part in
    int64_t num_preemptions = 0;  // of its thread, when it last looked
    Clock::time_point last_look;
    Clock::duration waited{};  // in barriers, beyond spinning
    std::array<Flag, kMaxRounds> signals;
  };
  using Call = void (*)(void* context, int worker, int num_workers);
  // What a worker waits for: the number of the region and how many workers it has, in one word.
  static constexpr uint32_t kWorkersMask = 2 * kMaxThreads - 1;
  static constexpr uint32_t kRegionStep = 2 * kMaxThreads;

  void run_region(Call call, void* context);
  void begin_region(int num_workers);
  uint32_t wait_region(int worker, uint32_t seen);
  void worker_main(int worker);
  void take_part(int worker, int num_workers);
  void wait_signal(Worker& self, const std::atomic<uint32_t>& signal, uint32_t count);
  void sleep_until(const std::atomic<uint32_t>& signal, uint32_t count);
  void look_for_preemptions(Worker& self);
  int choose_num_workers();
  void starve();

  int num_threads_;
  int barrier_spins_;
  int idle_spins_;
  std::vector<Worker> workers_;
  std::mutex region_mutex_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  int num_workers_ = 1;         // of the last region
  uint32_t first_barrier_ = 0;  // barriers before the region
  int next_num_workers_ = 1;    // of the next region
  Clock::time_point retry_at_;  // with all workers
  Clock::duration retry_delay_;
  Flag region_;        // as above
  Flag num_sleeping_;  // threads that wait for a region in the kernel
  Flag num_stuck_;     // threads that wait in a barrier, likewise
  Flag regrown_;       // counts how often a region had more workers than the one before
  Flag waited_long_;   // a worker of the region did
  Flag preempted_;     // a worker of the region was
  std::vector<std::jthread> threads_;
};

}  // namespace foretoken::cpu
