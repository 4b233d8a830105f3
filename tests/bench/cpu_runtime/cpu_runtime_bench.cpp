// What the CPU runtime adds to kernels: launches of a Program that do next to nothing.
#include <benchmark/benchmark.h>

#include <array>

#include "backends/cpu/cpu_backend.h"
#include "tests/support/cpu_test_kernels.h"

namespace foretoken::cpu {
namespace {

constexpr int kNumLaunches = 100;

/// Puts a launch of two items on the list that does nothing and claims to write `out`.
void launch_nothing(CommandList& cmd, const BufferView& out) {
  const std::array accesses{Access{.view = out, .mode = AccessMode::kWrite}};
  Kernel<test::NothingParams>{test::nothing_kernel()}(cmd, Grid{.x = 2}, {}, accesses);
}

/// Replays launches that write one buffer (a barrier each) or each their own (none).
void replay(benchmark::State& state, int num_launches, bool dependent) {
  CpuBackend backend({.num_threads = static_cast<int>(state.range(0))}, /*eager=*/false);
  const Buffer out = backend.allocate(static_cast<size_t>(num_launches) * 64, MemoryKind::kDevice);
  const auto stream = backend.create_stream();
  const Program program = backend.record("nothing", [&](CommandList& cmd) {
    for (int i = 0; i < num_launches; ++i) launch_nothing(cmd, out.view().slice(dependent ? 0 : static_cast<size_t>(i) * 64, 64));
  });
  for (auto _ : state) stream->run(program);
  state.counters["per_launch"] =
      benchmark::Counter(num_launches, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void dependent_launches(benchmark::State& state) { replay(state, kNumLaunches, /*dependent=*/true); }
BENCHMARK(dependent_launches)->Arg(1)->Arg(2)->UseRealTime();

void independent_launches(benchmark::State& state) { replay(state, kNumLaunches, /*dependent=*/false); }
BENCHMARK(independent_launches)->Arg(1)->Arg(2)->UseRealTime();

/// The cost of a parallel region whose workers still spin.
void one_region(benchmark::State& state) { replay(state, 1, /*dependent=*/true); }
BENCHMARK(one_region)->Arg(1)->Arg(2)->UseRealTime();

/// The same launch in immediate mode.
void immediate_launch(benchmark::State& state) {
  CpuBackend backend({.num_threads = static_cast<int>(state.range(0))}, /*eager=*/false);
  const Buffer a = backend.allocate(64, MemoryKind::kDevice);
  const auto stream = backend.create_stream();
  stream->run([&](CommandList& cmd) {
    for (auto _ : state) launch_nothing(cmd, a.view());
  });
}
BENCHMARK(immediate_launch)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace foretoken::cpu
