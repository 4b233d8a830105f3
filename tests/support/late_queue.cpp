#include "tests/support/late_queue.h"

#include <chrono>
#include <utility>

namespace foretoken::test {

LateQueue::LateQueue(uint64_t seed, int max_delay_us)
    : generator_(seed), delay_us_(0, max_delay_us), thread_([this] { main(); }) {}

LateQueue::~LateQueue() {
  const std::scoped_lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

void LateQueue::push(std::function<void()> task) {
  const std::scoped_lock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void LateQueue::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return tasks_.empty() && !busy_; });
}

void LateQueue::main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    const std::chrono::microseconds delay(delay_us_(generator_));
    lock.unlock();
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    task();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace foretoken::test
