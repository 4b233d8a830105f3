// Recording, replay, hazards between launches, faults.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "backends/ops.h"
#include "tests/conformance/interface/devices.h"
#include "tests/support/cpu_test_kernels.h"

namespace foretoken::test {
namespace {

class Programs : public InterfaceTest {};

/// Whether backends are told to run Programs launch by launch: the recorded function is then called again at each run.
bool runs_launch_by_launch() {
  return std::getenv("FORETOKEN_EAGER") != nullptr || std::getenv("FORETOKEN_SYNC_KERNELS") != nullptr;
}

TEST_P(Programs, ReplaysReadWhatMemoryHoldsThen) {
  const Buffer in = upload(iota(5000));
  const Buffer out = upload(std::vector<int32_t>(5000, 0));
  int calls = 0;
  const Program program = backend_->record("copy", [&](CommandList& cmd) {
    EXPECT_EQ(cmd.is_recording(), ++calls == 1);
    cmd.label("the only launch");
    cmd.copy(in.view(), out.view());
  });
  EXPECT_EQ(program.body().label(), "copy");
  EXPECT_EQ(program.body().num_launches(), 1U);
  EXPECT_EQ(download(out.view()), std::vector<int32_t>(5000, 0)) << "recording ran the launch";
  for (int32_t replay = 0; replay < 3; ++replay) {
    const auto values = iota(5000, 100 * replay);
    stream_->upload(std::as_bytes(std::span(values)), in.view());
    stream_->run(program);
    EXPECT_EQ(download(out.view()), values);
  }
  EXPECT_TRUE(calls == 1 || (runs_launch_by_launch() && calls == 4)) << calls;
}

TEST_P(Programs, RunInTheOrderOfTheCalls) {
  const Buffer a = upload({1});
  const Buffer b = upload({0});
  const Program program = backend_->record("copy", [&](CommandList& cmd) { cmd.copy(a.view(), b.view()); });
  stream_->run(program);
  stream_->run([&](CommandList& cmd) {
    EXPECT_FALSE(cmd.is_recording());
    cmd.fill(a.view(), 2);
  });
  EXPECT_EQ(download(b.view()), std::vector<int32_t>{1});
  stream_->run(program);
  EXPECT_EQ(download(b.view()), std::vector<int32_t>{2});
}

TEST_P(Programs, AnEmptyRecordingRuns) {
  const Program program = backend_->record("empty", [](CommandList&) {});
  EXPECT_EQ(program.body().num_launches(), 0U);
  stream_->run(program);
  stream_->synchronize();
}

TEST_P(Programs, AChainOfDependentLaunchesGivesTheRightAnswer) {
  if (!GetParam().runs_cpu_kernels) GTEST_SKIP() << "the kernels of this test are CPU functions";
  constexpr size_t kCount = 67;
  constexpr int32_t kSteps = 12;
  const Buffer a = upload(iota(kCount));
  const Buffer b = backend_->allocate(kCount * 4);
  const Program program = backend_->record("chain", [&](CommandList& cmd) {
    for (int32_t step = 0; step < kSteps; step += 2) {
      shift(cmd, a.view(), b.view());
      shift(cmd, b.view(), a.view());
    }
  });
  constexpr int32_t kReplays = 1000;
  for (int32_t replay = 0; replay < kReplays; ++replay) stream_->run(program);
  const auto got = download(a.view());
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(got[i], (static_cast<int32_t>(i) + kSteps * kReplays) % static_cast<int32_t>(kCount) + kSteps * kReplays) << i;
  }
}

TEST_P(Programs, CopiesThatCrossThreadsKeepTheirOrder) {
  // Rotates a buffer by one part, there and back through another; parts are longer than what one thread copies.
  constexpr size_t kPart = 100000;
  constexpr size_t kParts = 4;
  const Buffer a = upload(iota(kParts * kPart / 4));
  const Buffer b = backend_->allocate(a.bytes());
  const Program program = backend_->record("rotate", [&](CommandList& cmd) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      cmd.copy(a.view().slice(0, (kParts - 1) * kPart), b.view().slice(kPart, (kParts - 1) * kPart));
      cmd.copy(a.view().slice((kParts - 1) * kPart, kPart), b.view().slice(0, kPart));
      cmd.copy(b.view(), a.view());
    }
  });
  for (int replay = 0; replay < 6; ++replay) stream_->run(program);  // 12 rotations: three times round
  EXPECT_EQ(download(a.view()), iota(kParts * kPart / 4));
}

TEST_P(Programs, OperatorsChain) {
  // residual += x, then x = residual: doubles, exactly.
  constexpr int64_t kRows = 5;
  constexpr int64_t kHidden = 96;
  const Buffer x_memory = backend_->allocate(kRows * kHidden * 4);
  const Buffer residual_memory = backend_->allocate(kRows * kHidden * 4);
  const Buffer weight_memory = backend_->allocate(kHidden * 4);
  const Buffer out_memory = backend_->allocate(kRows * kHidden * 4);
  const Tensor x = x_memory.tensor(DType::kF32, {kRows, kHidden});
  const Tensor residual = residual_memory.tensor(DType::kF32, {kRows, kHidden});
  const Tensor weight = weight_memory.tensor(DType::kF32, {kHidden});
  const Tensor out = out_memory.tensor(DType::kF32, {kRows, kHidden});
  const Program program = backend_->record("double", [&](CommandList& cmd) {
    for (int step = 0; step < 10; ++step) {
      ops::add_rms_norm(cmd, x, residual, weight, out, 0.0F);
      cmd.copy(residual.view(), x.view());
    }
  });
  stream_->run([&](CommandList& cmd) { cmd.fill(weight.view(), 0); });
  for (int replay = 0; replay < 100; ++replay) {
    std::vector<float> ones(kRows * kHidden, 1.0F);
    stream_->upload(std::as_bytes(std::span(ones)), x.view());
    stream_->run([&](CommandList& cmd) { cmd.fill(residual.view(), 0); });
    stream_->run(program);
    std::vector<float> got(ones.size());
    stream_->download(residual.view(), std::as_writable_bytes(std::span(got)));
    ASSERT_EQ(got, std::vector<float>(ones.size(), 512.0F));
    stream_->download(out.view(), std::as_writable_bytes(std::span(got)));
    ASSERT_EQ(got, ones);
  }
}

TEST_P(Programs, RecordingRefusesWhatNeedsTheHost) {
  const Buffer buffer = upload({1});
  const auto event = backend_->create_event();
  std::array<std::byte, 4> host{};
  constexpr auto kState = ErrorCode::kInvalidState;
  const Program program = backend_->record("refused", [&](CommandList& cmd) {
    cmd.fill(buffer.view(), 3);
    if (!cmd.is_recording()) return;
    expect_error([&] { static_cast<void>(backend_->allocate(64)); }, kState);
    expect_error([&] { stream_->upload(host, buffer.view()); }, kState);
    expect_error([&] { stream_->download(buffer.view(), host); }, kState);
    expect_error([&] { stream_->run([](CommandList&) {}); }, kState);
    expect_error([&] { stream_->record(*event); }, kState);
    expect_error([&] { stream_->wait(*event); }, kState);
    expect_error([&] { event->synchronize(); }, kState);
    expect_error([&] { stream_->synchronize(); }, kState);
    expect_error([&] { static_cast<void>(backend_->record("inner", [](CommandList&) {})); }, kState);
  });
  stream_->run(program);
  EXPECT_EQ(download(buffer.view()), std::vector<int32_t>{3});
}

TEST_P(Programs, AFunctionThatThrowsLeavesNothingBehind) {
  const Buffer buffer = upload({1});
  expect_error(
      [&] {
        static_cast<void>(backend_->record("broken", [&](CommandList& cmd) {
          cmd.fill(buffer.view(), 5);
          throw Error(ErrorCode::kUnsupported, "not today");
        }));
      },
      ErrorCode::kUnsupported, {"not today"});
  EXPECT_EQ(download(buffer.view()), std::vector<int32_t>{1});
  EXPECT_TRUE(backend_->allocate(64));  // no longer recording
}

TEST_P(Programs, ForeignThingsAreRefused) {
  if (!GetParam().runs_cpu_kernels) GTEST_SKIP() << "the kernels of this test are CPU functions";
  expect_error([&] { stream_->run(Program()); }, ErrorCode::kInvalidArgument);
  struct ForeignCode final : KernelCode {
    ForeignCode() : KernelCode("foreign", 8) {}
  } const code;
  struct Params {
    uint64_t unused;
  };
  stream_->run([&](CommandList& cmd) {
    expect_error([&] { Kernel<Params>{code}(cmd, Grid{}, {}, {}); }, ErrorCode::kInvalidArgument, {"foreign"});
    expect_error([&] { cmd.launch(shift_kernel(), Grid{}, {}, {}); }, ErrorCode::kInvalidArgument, {"test_shift"});
    expect_error([&] { Kernel<NothingParams>{nothing_kernel()}(cmd, Grid{.x = 1U << 31, .y = 4}, {}, {}); },
                 ErrorCode::kInvalidArgument, {"grid"});
  });
  stream_->synchronize();
}

TEST_P(Programs, AFaultSurfacesAtTheNextWaitWithTheLabel) {
  if (!GetParam().runs_cpu_kernels) GTEST_SKIP() << "the kernels of this test are CPU functions";
  const Buffer buffer = upload({1});
  const Program program = backend_->record("draft x3", [](CommandList& cmd) { fail(cmd, 8); });
  const auto event = backend_->create_event();
  stream_->run(program);
  stream_->run([&](CommandList& cmd) { cmd.fill(buffer.view(), 9); });  // left out: what it builds on is missing
  stream_->record(*event);
  expect_error([&] { event->synchronize(); }, ErrorCode::kDeviceError, {"draft x3"});
  expect_error([&] { stream_->synchronize(); }, ErrorCode::kDeviceError, {"draft x3", "test_throw", "deliberate fault"});
  stream_->synchronize();
  stream_->run(program);
  expect_error([&] { static_cast<void>(download(buffer.view())); }, ErrorCode::kDeviceError, {"draft x3"});
  EXPECT_EQ(download(buffer.view()), std::vector<int32_t>{1});
}

FORETOKEN_INTERFACE_SUITE(Programs);

}  // namespace
}  // namespace foretoken::test
