#include "backends/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace foretoken::cpu {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryWorkerOnce) {
  ThreadPool pool(GetParam(), /*spin=*/GetParam() <= 2);
  for (int region = 0; region < 200; ++region) {
    std::vector<int> calls(static_cast<size_t>(GetParam()), 0);
    std::vector<int> expected = calls;
    pool.run([&](int worker, int num_workers) {
      ++calls[static_cast<size_t>(worker)];
      if (worker == 0) std::fill_n(expected.begin(), num_workers, 1);  // fewer than all while this machine is busy
    });
    EXPECT_EQ(calls, expected);
  }
}

TEST_P(ThreadPoolTest, BarrierShowsWhatOthersWrote) {
  ThreadPool pool(GetParam(), /*spin=*/GetParam() <= 2);
  const auto size = static_cast<size_t>(GetParam());
  std::vector<int> current(size, 0);
  std::vector<int> next(size, 0);
  constexpr int kSteps = 500;
  pool.run([&](int worker, int) {
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
  for (int region = 0; region < 5; ++region) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> calls = 0;
    int expected = 0;
    pool.run([&](int worker, int num_workers) {
      if (worker == 0) expected = num_workers;
      ++calls;
    });
    EXPECT_EQ(calls, expected);
  }
}

TEST_P(ThreadPoolTest, WaitsForASlowWorker) {
  ThreadPool pool(GetParam(), /*spin=*/false);
  std::atomic<bool> done = false;
  pool.run([&](int worker, int) {
    if (worker == GetParam() - 1) {  // the first region has all workers
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    }
    pool.barrier(worker);
    EXPECT_TRUE(done);
  });
}

TEST_P(ThreadPoolTest, RegionsOfTwoCallersTakeTurns) {
  ThreadPool pool(GetParam(), /*spin=*/false);
  int running = 0;  // not atomic: a region of the other caller would make it wrong
  const auto work = [&] {
    for (int region = 0; region < 200; ++region) {
      std::atomic<int> calls = 0;
      int expected = 0;
      pool.run([&](int worker, int num_workers) {
        if (worker == 0) {
          EXPECT_EQ(++running, 1);
          expected = num_workers;
        }
        ++calls;
        pool.barrier(worker);
        if (worker == 0) --running;
      });
      EXPECT_EQ(calls, expected);
    }
  };
  const std::jthread other(work);
  work();
}

TEST_P(ThreadPoolTest, UsesFewerWorkersWhileStarved) {
  ThreadPool pool(GetParam(), /*spin=*/false);
  const auto run = [&] {
    std::atomic<int> calls = 0;
    int expected = 0;
    pool.run([&](int worker, int num_workers) {
      EXPECT_LT(worker, num_workers);
      if (worker == 0) expected = num_workers;
      ++calls;
      pool.barrier(worker);
      EXPECT_EQ(calls, num_workers);
      pool.barrier(worker);
    });
    EXPECT_EQ(calls, expected);
    return expected;
  };
  EXPECT_EQ(run(), GetParam());
  pool.assume_starved();
  EXPECT_LE(run(), std::max(GetParam() / 2, 1));
  pool.assume_starved();
  EXPECT_LE(run(), std::max(GetParam() / 2, 1));
  const auto start = std::chrono::steady_clock::now();
  while (run() < GetParam()) ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  // Shrinking and growing in quick succession, with workers asleep and awake.
  for (int i = 0; i < 50; ++i) {
    if (i % 3 == 0) pool.assume_starved();
    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    run();
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(2, 3, 4, 7), testing::PrintToStringParamName());

TEST(ThreadPool, OneThreadRunsOnTheCaller) {
  ThreadPool pool(1, /*spin=*/true);
  std::thread::id id;
  pool.run([&](int worker, int) {
    EXPECT_EQ(worker, 0);
    pool.barrier(worker);
    id = std::this_thread::get_id();
  });
  EXPECT_EQ(id, std::this_thread::get_id());
}

}  // namespace
}  // namespace foretoken::cpu
