#include "backends/cpu/thread_pool.h"

#include <immintrin.h>

#include <chrono>

namespace foretoken::cpu {
namespace {

// One pause takes 15 to 50 ns. Launches are shorter than the first bound, the host's work between two steps than the second.
constexpr int kBarrierSpins = 1000;
constexpr int kIdleSpins = 3000;
constexpr int kSpinsWithoutCores = 8;
// A thread that yields this often waits for something long, so it sleeps and leaves its core to others.
constexpr int kYields = 4000;
constexpr std::chrono::microseconds kNap{50};

}  // namespace

ThreadPool::ThreadPool(int num_threads, bool spin)
    : num_threads_(num_threads),
      barrier_spins_(spin ? kBarrierSpins : kSpinsWithoutCores),
      idle_spins_(spin ? kIdleSpins : kSpinsWithoutCores),
      workers_(static_cast<size_t>(num_threads)) {
  threads_.reserve(workers_.size() - 1);
  try {
    for (int worker = 1; worker < num_threads; ++worker) threads_.emplace_back([this, worker] { worker_main(worker); });
  } catch (...) {  // no more threads: those that run must leave before they are joined
    stop_ = true;
    begin_region();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  begin_region();
}

void ThreadPool::run_region(Call call, void* context) {
  const std::scoped_lock lock(region_mutex_);
  call_ = call;
  context_ = context;
  begin_region();
  call(context, 0);
  barrier(0);
}

// Sequentially consistent on both sides: a thread that goes to sleep either sees the new count or is seen here.
void ThreadPool::begin_region() {
  region_.value.fetch_add(1, std::memory_order_seq_cst);
  if (num_sleeping_.value.load(std::memory_order_seq_cst) > 0) region_.value.notify_all();
}

void ThreadPool::wait_region(uint32_t seen) {
  for (int spin = 0; spin < idle_spins_; ++spin) {
    if (region_.value.load(std::memory_order_acquire) != seen) return;
    _mm_pause();
  }
  num_sleeping_.value.fetch_add(1, std::memory_order_seq_cst);
  region_.value.wait(seen, std::memory_order_seq_cst);
  num_sleeping_.value.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::worker_main(int worker) {
  uint32_t seen = 0;
  for (;;) {
    wait_region(seen);
    ++seen;
    if (stop_) return;
    call_(context_, worker);
    barrier(worker);
  }
}

void ThreadPool::barrier(int worker) {
  Worker& self = workers_[static_cast<size_t>(worker)];
  const uint32_t count = ++self.num_barriers;
  size_t round = 0;
  for (int distance = 1; distance < num_threads_; distance *= 2, ++round) {
    const auto next = static_cast<size_t>((worker + distance) % num_threads_);
    workers_[next].signals[round].value.store(count, std::memory_order_release);
    wait_signal(self.signals[round].value, count);
  }
}

void ThreadPool::wait_signal(const std::atomic<uint32_t>& signal, uint32_t count) const {
  const auto arrived = [&] { return static_cast<int32_t>(signal.load(std::memory_order_acquire) - count) >= 0; };
  for (int spin = 0; spin < barrier_spins_; ++spin) {
    if (arrived()) return;
    _mm_pause();
  }
  for (int yield = 0; yield < kYields; ++yield) {
    if (arrived()) return;
    std::this_thread::yield();
  }
  while (!arrived()) std::this_thread::sleep_for(kNap);
}

}  // namespace foretoken::cpu
