// The thread of one stream of the late device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

namespace foretoken::test {

/// Runs tasks in order, each after a random delay. Tasks must not throw. The destructor runs what is left.
class LateQueue {
 public:
  LateQueue(uint64_t seed, int max_delay_us);
  ~LateQueue();
  LateQueue(const LateQueue&) = delete;
  LateQueue& operator=(const LateQueue&) = delete;

  void push(std::function<void()> task);
  /// Waits until nothing is left.
  void wait_idle();

 private:
  void main();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;
  bool stop_ = false;
  std::mt19937_64 generator_;
  std::uniform_int_distribution<int> delay_us_;
  std::jthread thread_;
};

}  // namespace foretoken::test
