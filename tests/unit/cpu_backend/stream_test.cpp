#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "core/error.h"
#include "tests/support/cpu_test_kernels.h"

namespace foretoken::cpu {
namespace {

using test::fail;
using test::shift;

std::string device_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeviceError);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
}

TEST(CpuStream, AFaultInAProgramSurfacesAtTheNextWait) {
  for (const int num_threads : {1, 2, 3}) {
    CpuBackend backend({.num_threads = num_threads}, /*eager=*/false);
    const auto stream = backend.create_stream();
    const Program program = backend.record("broken step", [](CommandList& cmd) {
      cmd.label("layer 7");
      fail(cmd, 8);
    });
    stream->run(program);
    const std::string message = device_error([&] { stream->synchronize(); });
    expect_parts(message, {"broken step", "launch 0", "test_throw", "layer 7", "deliberate fault"});
    stream->synchronize();  // it was reported
  }
}

TEST(CpuStream, WorkAfterAFaultIsLeftOut) {
  CpuBackend backend({.num_threads = 2}, /*eager=*/false);
  const auto stream = backend.create_stream();
  Buffer a = backend.allocate(64, MemoryKind::kHostVisible);
  auto* words = reinterpret_cast<uint32_t*>(a.view().buffer->host_data());
  stream->run([&](CommandList& cmd) { cmd.fill(a.view(), 1); });
  const Program program = backend.record("broken", [&](CommandList& cmd) {
    fail(cmd, 2);
    fail(cmd, 1);
  });
  stream->run(program);
  stream->run([&](CommandList& cmd) { cmd.fill(a.view(), 2); });
  const auto event = backend.create_event();
  stream->record(*event);
  device_error([&] { event->synchronize(); });
  device_error([&] { stream->synchronize(); });
  EXPECT_EQ(words[0], 1U);
  stream->run([&](CommandList& cmd) { cmd.fill(a.view(), 3); });
  EXPECT_EQ(words[0], 3U);
}

TEST(CpuStream, AFaultInImmediateWorkNamesItsLabel) {
  CpuBackend backend({.num_threads = 2}, /*eager=*/false);
  const auto stream = backend.create_stream();
  stream->run([](CommandList& cmd) {
    cmd.label("prefill");
    fail(cmd, 4);
  });
  std::byte byte{};
  Buffer a = backend.allocate(1, MemoryKind::kDevice);
  expect_parts(device_error([&] { stream->download(a.view(), std::span(&byte, 1)); }), {"immediate", "test_throw", "prefill"});
}

TEST(CpuStream, EagerNamesTheLaunchThatFailedAtOnce) {
  CpuBackend backend({.num_threads = 2}, /*eager=*/true);
  const auto stream = backend.create_stream();
  Buffer a = backend.allocate(64, MemoryKind::kDevice);
  const Program program = backend.record("step", [&](CommandList& cmd) {
    cmd.fill(a.view(), 0);
    fail(cmd, 2);
    cmd.fill(a.view(), 1);
  });
  expect_parts(device_error([&] { stream->run(program); }), {"step", "launch 1", "test_throw"});
}

TEST(CpuStream, TwoHostThreadsShareOneBackend) {
  CpuBackend backend({.num_threads = 2}, /*eager=*/false);
  constexpr uint32_t kN = 257;
  constexpr int kSteps = 20;
  constexpr int kReplays = 50;
  const auto work = [&](std::vector<int32_t>& result) {
    const auto stream = backend.create_stream();
    Buffer a = backend.allocate(kN * 4, MemoryKind::kDevice);
    Buffer b = backend.allocate(kN * 4, MemoryKind::kDevice);
    stream->run([&](CommandList& cmd) { cmd.fill(a.view(), 0); });
    const Program program = backend.record("chain", [&](CommandList& cmd) {
      for (int step = 0; step < kSteps; step += 2) {
        shift(cmd, a.view(), b.view());
        shift(cmd, b.view(), a.view());
      }
    });
    for (int replay = 0; replay < kReplays; ++replay) stream->run(program);
    stream->download(a.view(), std::as_writable_bytes(std::span(result)));
  };
  std::vector<int32_t> first(kN);
  std::vector<int32_t> second(kN);
  {
    const std::jthread other([&] { work(second); });
    work(first);
  }
  EXPECT_EQ(first, std::vector<int32_t>(kN, kSteps * kReplays));
  EXPECT_EQ(second, first);
}

}  // namespace
}  // namespace foretoken::cpu
