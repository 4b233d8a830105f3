#include "backends/cpu/cpu_program.h"

#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "tests/support/cpu_test_kernels.h"

namespace foretoken::cpu {
namespace {

using test::shift;

class CpuProgramTest : public testing::Test {
 protected:
  CpuBackend backend_{{.num_threads = 2}, /*eager=*/false};
  Buffer memory_ = backend_.allocate(4096, MemoryKind::kDevice);

  [[nodiscard]] BufferView part(size_t idx, size_t bytes = 64) const { return memory_.view().slice(idx * 64, bytes); }

  size_t num_barriers(const RecordFn& fn) {
    const Program program = backend_.record("test", fn);
    return dynamic_cast<const CpuProgram&>(program.body()).num_barriers();
  }
};

TEST_F(CpuProgramTest, NoBarrierBetweenIndependentLaunches) {
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              shift(cmd, part(0), part(1));
              shift(cmd, part(0), part(2));  // both read part 0
              shift(cmd, part(3), part(4));
            }),
            0U);
}

TEST_F(CpuProgramTest, BarrierAtEachKindOfHazard) {
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              shift(cmd, part(0), part(1));
              shift(cmd, part(1), part(2));  // reads what was written
            }),
            1U);
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              shift(cmd, part(0), part(1));
              shift(cmd, part(2), part(0));  // writes what was read
            }),
            1U);
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              shift(cmd, part(0), part(1));
              shift(cmd, part(2), part(1));  // writes what was written
            }),
            1U);
}

TEST_F(CpuProgramTest, PartsThatOverlapByOneByteAreAHazard) {
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              cmd.fill(memory_.view().slice(0, 64), 1);
              shift(cmd, memory_.view().slice(60, 64), part(10));
            }),
            1U);
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              cmd.fill(memory_.view().slice(0, 64), 1);
              shift(cmd, memory_.view().slice(64, 64), part(10));
            }),
            0U);
}

TEST_F(CpuProgramTest, ABarrierCoversAllLaunchesBeforeIt) {
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              shift(cmd, part(0), part(1));
              shift(cmd, part(2), part(3));
              shift(cmd, part(1), part(4));
              shift(cmd, part(3), part(5));
            }),
            1U);
}

TEST_F(CpuProgramTest, LaunchesOfOneItemNeedNoBarrierAmongThemselves) {
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              cmd.copy(part(0), part(1));
              cmd.copy(part(1), part(2));
            }),
            0U);
  EXPECT_EQ(num_barriers([&](CommandList& cmd) {
              cmd.copy(part(0), part(1));
              cmd.copy(part(1), part(2));
              shift(cmd, part(2), part(3));
              cmd.copy(part(3), part(4));
            }),
            2U);
}

TEST_F(CpuProgramTest, AnEmptyGridIsNoLaunch) {
  const Program program = backend_.record("empty", [&](CommandList& cmd) {
    Kernel<test::ShiftParams>{test::shift_kernel()}(cmd, Grid{.x = 0}, {}, {});
    cmd.copy(memory_.view().slice(0, 0), memory_.view().slice(8, 0));
  });
  EXPECT_EQ(program.body().num_launches(), 0U);
  const auto stream = backend_.create_stream();
  stream->run(program);
  stream->synchronize();
}

TEST_F(CpuProgramTest, EveryItemRunsOnceForAnyGrid) {
  for (const int num_threads : {1, 2, 3, 5}) {
    CpuBackend backend({.num_threads = num_threads}, /*eager=*/false);
    for (const uint32_t n : {1U, 2U, 3U, 7U, 64U, 1000U}) {
      Buffer a = backend.allocate(n * 4, MemoryKind::kHostVisible);
      Buffer b = backend.allocate(n * 4, MemoryKind::kHostVisible);
      auto* in = reinterpret_cast<int32_t*>(a.view().buffer->host_data());
      auto* out = reinterpret_cast<int32_t*>(b.view().buffer->host_data());
      for (uint32_t i = 0; i < n; ++i) in[i] = static_cast<int32_t>(10 * i);
      const Program program = backend.record("shift", [&](CommandList& cmd) { shift(cmd, a.view(), b.view()); });
      const auto stream = backend.create_stream();
      stream->run(program);
      stream->synchronize();
      for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(out[i], in[(i + 1) % n] + 1) << num_threads << " threads, item " << i;
    }
  }
}

}  // namespace
}  // namespace foretoken::cpu
