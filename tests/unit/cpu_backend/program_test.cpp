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

TEST(ItemClaims, CoverEveryItemOnceInEveryReplay) {
  ItemClaims claims;
  uint32_t replay = 0;
  for (const uint32_t num_items : {1U, 2U, 31U, 32U, 500U, 4097U}) {
    for (const int num_workers : {2, 3, 16}) {
      uint32_t next = 0;
      uint32_t num_claims = 0;
      uint32_t last_length = num_items;
      ++replay;
      for (;;) {
        const ItemClaims::Range range = claims.claim(replay, num_items, num_workers);
        ASSERT_EQ(range.begin, next);
        if (range.begin == range.end) break;
        ASSERT_LE(range.end - range.begin, last_length);
        last_length = range.end - range.begin;
        next = range.end;
        ++num_claims;
      }
      EXPECT_EQ(next, num_items);
      EXPECT_LE(num_claims, 24U * static_cast<uint32_t>(num_workers));
    }
  }
}

TEST_F(CpuProgramTest, HeavyLaunchesRunEveryItemOnceInEveryReplay) {
  constexpr uint32_t kItems = 1 << 18;  // of 4 bytes, read and written
  for (const int num_threads : {1, 2, 3}) {
    CpuBackend backend({.num_threads = num_threads}, /*eager=*/false);
    Buffer a = backend.allocate(kItems * 4, MemoryKind::kHostVisible);
    Buffer b = backend.allocate(kItems * 4, MemoryKind::kHostVisible);
    auto* data = reinterpret_cast<int32_t*>(a.view().buffer->host_data());
    for (uint32_t i = 0; i < kItems; ++i) data[i] = static_cast<int32_t>(i);
    const Program program = backend.record("there and back", [&](CommandList& cmd) {
      shift(cmd, a.view(), b.view());
      shift(cmd, b.view(), a.view());
    });
    const auto stream = backend.create_stream();
    for (int replay = 0; replay < 3; ++replay) stream->run(program);
    stream->synchronize();
    for (uint32_t i = 0; i < kItems; ++i) ASSERT_EQ(data[i], static_cast<int32_t>((i + 6) % kItems + 6));
  }
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
