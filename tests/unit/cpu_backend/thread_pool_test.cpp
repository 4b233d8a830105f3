#include "backends/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace foretoken::cpu {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryWorkerOnce) {
  ThreadPool pool(GetParam(), /*spin=*/GetParam() <= 2);
  std::vector<int> calls(static_cast<size_t>(GetParam()), 0);
  for (int region = 0; region < 200; ++region) pool.run([&](int worker) { ++calls[static_cast<size_t>(worker)]; });
  for (const int count : calls) EXPECT_EQ(count, 200);
}

TEST_P(ThreadPoolTest, BarrierShowsWhatOthersWrote) {
  ThreadPool pool(GetParam(), /*spin=*/GetParam() <= 2);
  const auto size = static_cast<size_t>(GetParam());
  std::vector<int> current(size, 0);
  std::vector<int> next(size, 0);
  constexpr int kSteps = 500;
  pool.run([&](int worker) {
    const auto self = static_cast<size_t>(worker);
    std::vector<int>* in = &current;
    std::vector<int>* out = &next;
    for (int step = 0; step < kSteps; ++step) {
      (*out)[self] = (*in)[(self + 1) % size] + 1;
      pool.barrier(worker);
      std::swap(in, out);
    }
  });
  EXPECT_EQ(kSteps % 2 == 0 ? current : next, std::vector<int>(size, kSteps));
}

TEST_P(ThreadPoolTest, WakesThreadsThatSleep) {
  ThreadPool pool(GetParam(), /*spin=*/false);
  std::atomic<int> calls = 0;
  for (int region = 0; region < 5; ++region) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run([&](int) { ++calls; });
  }
  EXPECT_EQ(calls, 5 * GetParam());
}

TEST_P(ThreadPoolTest, WaitsForASlowWorker) {
  ThreadPool pool(GetParam(), /*spin=*/false);
  std::atomic<bool> done = false;
  pool.run([&](int worker) {
    if (worker == GetParam() - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    }
    pool.barrier(worker);
    EXPECT_TRUE(done);
  });
}

TEST_P(ThreadPoolTest, RegionsOfTwoCallersTakeTurns) {
  ThreadPool pool(GetParam(), /*spin=*/false);
  const auto size = static_cast<size_t>(GetParam());
  const auto work = [&](std::vector<int>& counts) {
    for (int region = 0; region < 200; ++region) {
      pool.run([&](int worker) {
        ++counts[static_cast<size_t>(worker)];
        pool.barrier(worker);
      });
    }
  };
  std::vector<int> first(size, 0);
  std::vector<int> second(size, 0);
  {
    const std::jthread other([&] { work(second); });
    work(first);
  }
  EXPECT_EQ(first, std::vector<int>(size, 200));
  EXPECT_EQ(second, std::vector<int>(size, 200));
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(2, 3, 4, 7), testing::PrintToStringParamName());

TEST(ThreadPool, OneThreadRunsOnTheCaller) {
  ThreadPool pool(1, /*spin=*/true);
  std::thread::id id;
  pool.run([&](int worker) {
    EXPECT_EQ(worker, 0);
    pool.barrier(worker);
    id = std::this_thread::get_id();
  });
  EXPECT_EQ(id, std::this_thread::get_id());
}

}  // namespace
}  // namespace foretoken::cpu
