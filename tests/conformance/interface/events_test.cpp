// Events and several streams.
#include <thread>

#include "tests/conformance/interface/devices.h"

namespace foretoken::test {
namespace {

class Events : public InterfaceTest {};

TEST_P(Events, CompleteUntilRecordedAndAfterTheWork) {
  const auto event = backend_->create_event();
  EXPECT_TRUE(event->is_complete());
  event->synchronize();
  const Buffer buffer = upload(iota(1000));
  stream_->record(*event);
  event->synchronize();
  EXPECT_TRUE(event->is_complete());
  stream_->record(*event);  // again
  stream_->synchronize();
  EXPECT_TRUE(event->is_complete());
}

TEST_P(Events, ElapsedTimeIsThatOfTheWorkBetween) {
  const auto start = backend_->create_event();
  const auto stop = backend_->create_event();
  expect_error([&] { static_cast<void>(stop->elapsed_us(*start)); }, ErrorCode::kInvalidState);
  const Buffer buffer = backend_->allocate(size_t{8} << 20);
  stream_->record(*start);
  stream_->run([&](CommandList& cmd) { cmd.fill(buffer.view(), 1); });
  stream_->record(*stop);
  stop->synchronize();
  EXPECT_GT(stop->elapsed_us(*start), 1.0);
  EXPECT_LT(stop->elapsed_us(*start), 60e6);
  EXPECT_LT(start->elapsed_us(*stop), 0.0);
}

TEST_P(Events, AStreamWaitsForAnother) {
  const auto second = backend_->create_stream();
  const auto event = backend_->create_event();
  constexpr size_t kCount = 20000;
  const Buffer a = backend_->allocate(kCount * 4);
  const Buffer b = backend_->allocate(kCount * 4);
  for (int32_t round = 0; round < 50; ++round) {
    const auto values = iota(kCount, round);
    stream_->upload(std::as_bytes(std::span(values)), a.view());
    stream_->record(*event);
    second->wait(*event);
    second->copy(a.view(), b.view());
    second->record(*event);
    stream_->wait(*event);
    ASSERT_EQ(download(b.view()), values) << round;
  }
}

TEST_P(Events, TwoHostThreadsWithAStreamEach) {
  constexpr size_t kCount = 50000;
  constexpr int32_t kRounds = 30;
  const auto work = [&](int32_t first, int& num_equal) {
    const auto stream = backend_->create_stream();
    const Buffer a = backend_->allocate(kCount * 4);
    const Buffer b = backend_->allocate(kCount * 4);
    const Program program = backend_->record("copy", [&](CommandList& cmd) { cmd.copy(a.view(), b.view()); });
    for (int32_t round = 0; round < kRounds; ++round) {
      const auto values = iota(kCount, first + round);
      stream->upload(std::as_bytes(std::span(values)), a.view());
      stream->run(program);
      std::vector<int32_t> got(kCount);
      stream->download(b.view(), std::as_writable_bytes(std::span(got)));
      if (got == values) ++num_equal;
    }
  };
  int first_equal = 0;
  int second_equal = 0;
  {
    const std::jthread other([&] { work(1000000, second_equal); });
    work(0, first_equal);
  }
  EXPECT_EQ(first_equal, kRounds);
  EXPECT_EQ(second_equal, kRounds);
}

FORETOKEN_INTERFACE_SUITE(Events);

}  // namespace
}  // namespace foretoken::test
