// What makes the late device unlike a CPU.
#include "tests/conformance/interface/devices.h"
#include "tests/support/late_device.h"

namespace foretoken::test {
namespace {

TEST(LateDevice, WorksAfterTheCallHasReturned) {
  const auto backend = make_late_backend({.num_threads = 1}, {.seed = 3, .max_delay_us = 20000});
  const auto stream = backend->create_stream();
  const auto event = backend->create_event();
  int num_pending = 0;
  for (int i = 0; i < 5; ++i) {
    stream->record(*event);
    if (!event->is_complete()) ++num_pending;
    event->synchronize();
  }
  EXPECT_GT(num_pending, 0);
}

TEST(LateDeviceDeathTest, TheHostCannotTouchItsMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto backend = make_late_backend({.num_threads = 1});
  const Buffer buffer = backend->allocate(64);
  backend->create_stream()->synchronize();
  EXPECT_DEATH(*reinterpret_cast<volatile int*>(buffer.view().address()) = 1, "");
}

}  // namespace
}  // namespace foretoken::test
