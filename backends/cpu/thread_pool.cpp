#include "backends/cpu/thread_pool.h"

#include <immintrin.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

namespace foretoken::cpu {
namespace {

// One pause takes 15 to 50 ns. Launches are shorter than the first bound, the host's work between two steps than the second.
constexpr int kBarrierSpins = 1000;
constexpr int kIdleSpins = 3000;
constexpr int kSpinsWithoutCores = 8;
// A thread that has waited this long in one barrier sleeps: waking it takes long, above all where processors are virtual. A
// worker that has waited this long in several makes all look at why.
constexpr std::chrono::milliseconds kLongWait{1};
// A thread that loses its core more often than once in this time shares it.
constexpr std::chrono::milliseconds kPreemptionPeriod{10};
// Time with fewer workers before all are tried again.
constexpr std::chrono::milliseconds kFirstRetryDelay{10};
constexpr std::chrono::milliseconds kLastRetryDelay{320};

/// How often the system took the calling thread's core away while it had work.
int64_t preemptions_of_this_thread() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

}  // namespace

ThreadPool::ThreadPool(int num_threads, bool spin)
    : num_threads_(num_threads),
      barrier_spins_(spin ? kBarrierSpins : kSpinsWithoutCores),
      idle_spins_(spin ? kIdleSpins : kSpinsWithoutCores),
      workers_(static_cast<size_t>(num_threads)),
      next_num_workers_(num_threads),
      retry_delay_(kFirstRetryDelay) {
  threads_.reserve(workers_.size() - 1);
  try {
    for (int worker = 1; worker < num_threads; ++worker) threads_.emplace_back([this, worker] { worker_main(worker); });
  } catch (...) {  // no more threads: those that run must leave before they are joined
    stop_ = true;
    begin_region(num_threads_);
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  begin_region(num_threads_);
}

void ThreadPool::run_region(Call call, void* context) {
  const std::scoped_lock lock(region_mutex_);
  call_ = call;
  context_ = context;
  const int num_workers = choose_num_workers();
  begin_region(num_workers);
  take_part(0, num_workers);
}

// Sequentially consistent on both sides: a thread that goes to sleep either sees the new word or is seen here.
void ThreadPool::begin_region(int num_workers) {
  const uint32_t last = region_.value.load(std::memory_order_relaxed);
  const bool grows = num_workers > num_workers_;
  num_workers_ = num_workers;
  first_barrier_ = workers_[0].num_barriers;
  region_.value.store((last & ~kWorkersMask) + kRegionStep + static_cast<uint32_t>(num_workers), std::memory_order_seq_cst);
  if (num_sleeping_.value.load(std::memory_order_seq_cst) > 0) region_.value.notify_all();
  if (!grows) return;
  regrown_.value.fetch_add(1, std::memory_order_seq_cst);
  regrown_.value.notify_all();
}

/// Waits for a region that is not `seen` and that `worker` has a part in, and returns its word. A worker without a part sleeps
/// until regions grow; it cannot miss that, since it looks at the count before it looks at the region.
uint32_t ThreadPool::wait_region(int worker, uint32_t seen) {
  for (;;) {
    for (int spin = 0; spin < idle_spins_; ++spin) {
      const uint32_t regrown = regrown_.value.load(std::memory_order_seq_cst);
      const uint32_t region = region_.value.load(std::memory_order_seq_cst);
      if (region != seen && static_cast<int>(region & kWorkersMask) <= worker) {
        regrown_.value.wait(regrown, std::memory_order_seq_cst);
      } else if (region != seen) {
        return region;
      }
      _mm_pause();
    }
    num_sleeping_.value.fetch_add(1, std::memory_order_seq_cst);
    region_.value.wait(seen, std::memory_order_seq_cst);
    num_sleeping_.value.fetch_sub(1, std::memory_order_relaxed);
  }
}

void ThreadPool::worker_main(int worker) {
  uint32_t seen = 0;
  for (;;) {
    seen = wait_region(worker, seen);
    if (stop_) return;
    take_part(worker, static_cast<int>(seen & kWorkersMask));
  }
}

void ThreadPool::take_part(int worker, int num_workers) {
  Worker& self = workers_[static_cast<size_t>(worker)];
  self.num_barriers = first_barrier_;
  self.num_workers = num_workers;
  call_(context_, worker, num_workers);
  barrier(worker);
  if (num_workers > 1 && waited_long_.value.load(std::memory_order_relaxed) != 0) look_for_preemptions(self);
}

void ThreadPool::barrier(int worker) {
  Worker& self = workers_[static_cast<size_t>(worker)];
  const uint32_t count = ++self.num_barriers;
  size_t round = 0;
  for (int distance = 1; distance < self.num_workers; distance *= 2, ++round) {
    std::atomic<uint32_t>& next = workers_[static_cast<size_t>((worker + distance) % self.num_workers)].signals[round].value;
    // As in begin_region.
    next.store(count, std::memory_order_seq_cst);
    if (num_stuck_.value.load(std::memory_order_seq_cst) > 0) next.notify_one();
    wait_signal(self, self.signals[round].value, count);
  }
}

void ThreadPool::wait_signal(Worker& self, const std::atomic<uint32_t>& signal, uint32_t count) {
  const auto has_come = [&] { return static_cast<int32_t>(signal.load(std::memory_order_acquire) - count) >= 0; };
  for (int spin = 0; spin < barrier_spins_; ++spin) {
    if (has_come()) return;
    _mm_pause();
  }
  const Clock::time_point start = Clock::now();
  Clock::duration waited{};
  while (!has_come() && waited < kLongWait) {
    std::this_thread::yield();
    waited = Clock::now() - start;
  }
  if (!has_come()) {
    sleep_until(signal, count);
    waited = Clock::now() - start;
  }
  self.waited += waited;
  if (self.waited < kLongWait) return;
  self.waited = {};
  waited_long_.value.store(1, std::memory_order_relaxed);
}

void ThreadPool::sleep_until(const std::atomic<uint32_t>& signal, uint32_t count) {
  num_stuck_.value.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t value = signal.load(std::memory_order_seq_cst);
    if (static_cast<int32_t>(value - count) >= 0) break;
    signal.wait(value, std::memory_order_seq_cst);
  }
  num_stuck_.value.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::look_for_preemptions(Worker& self) {
  const Clock::time_point now = Clock::now();
  const int64_t count = preemptions_of_this_thread();
  if ((count - self.num_preemptions) * kPreemptionPeriod > now - self.last_look) {
    preempted_.value.store(1, std::memory_order_relaxed);
  }
  self.num_preemptions = count;
  self.last_look = now;
}

/// How many workers the next region has, from how those before went. For worker 0, between regions.
int ThreadPool::choose_num_workers() {
  if (waited_long_.value.load(std::memory_order_relaxed) != 0) {
    waited_long_.value.store(0, std::memory_order_relaxed);
    if (preempted_.value.exchange(0, std::memory_order_relaxed) != 0) starve();
  }
  if (next_num_workers_ < num_threads_ && Clock::now() >= retry_at_) next_num_workers_ = num_threads_;
  return next_num_workers_;
}

void ThreadPool::starve() {
  const Clock::time_point now = Clock::now();
  // All is well again when the workers stayed for much longer than they were away.
  const bool is_new = next_num_workers_ == num_threads_ && now - retry_at_ > 4 * retry_delay_;
  retry_delay_ = is_new ? kFirstRetryDelay : std::min<Clock::duration>(2 * retry_delay_, kLastRetryDelay);
  next_num_workers_ = std::max(next_num_workers_ / 2, 1);
  retry_at_ = now + retry_delay_;
}

}  // namespace foretoken::cpu
