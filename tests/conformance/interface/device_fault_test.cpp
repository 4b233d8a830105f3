// A kernel that reads a wrong address, on the GPU that FORETOKEN_TEST_BACKEND selects. What it leaves of the device is of no use,
// so it runs in a process of its own.
#include <cstdlib>

#include "backends/ops.h"
#include "backends/registry.h"
#include "tests/conformance/interface/devices.h"

namespace foretoken::test {
namespace {

/// Says that it has memory where there is none.
class BadBuffer final : public BufferHandle {
 public:
  [[nodiscard]] size_t bytes() const override { return size_t{1} << 20; }
  [[nodiscard]] DeviceAddress address() const override { return DeviceAddress{1} << 20; }
  [[nodiscard]] MemoryKind kind() const override { return MemoryKind::kDevice; }
  [[nodiscard]] std::byte* host_data() const override { return nullptr; }
};

/// Runs a Program between two good ones and prints what waiting for it throws.
void run_bad_program(GpuBackend& backend) {
  const BadBuffer bad;
  const Buffer good = backend.allocate(bad.bytes());
  const Buffer ids = backend.allocate(sizeof(int32_t));
  const auto program = [&](const char* label, BufferHandle& buffer) {
    const Tensor logits({.buffer = &buffer, .offset = 0, .bytes = buffer.bytes()}, DType::kF32, {1, 1024});
    const Tensor token_ids = ids.tensor(DType::kI32, {1});
    return backend.record(label, [logits, token_ids](CommandList& cmd) { ops::argmax(cmd, logits, token_ids); });
  };
  const Program sound = program("sound", *good.view().buffer);
  const Program broken = program("broken draft x3", const_cast<BadBuffer&>(bad));
  const auto stream = backend.create_stream();
  stream->run(sound);
  stream->synchronize();
  stream->run(broken);
  try {
    stream->synchronize();
    std::fprintf(stderr, "nothing was thrown\n");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", std::string(to_string(error.code())).c_str(), error.what());
  }
  std::_Exit(0);  // the device is lost: owners of its memory would only complain
}

TEST(DeviceFaultDeathTest, IsReportedWithTheLabelOfTheProgram) {
  const char* selected = std::getenv("FORETOKEN_TEST_BACKEND");
  if (selected == nullptr) GTEST_SKIP() << "FORETOKEN_TEST_BACKEND selects no device";
  setenv("FORETOKEN_VULKAN_TIMEOUT", "3", 0);  // there are drivers that say nothing
  const auto backend = BackendRegistry::instance().open(selected);
  if (backend->capabilities().kind == DeviceKind::kCpu) GTEST_SKIP() << "on a CPU a wrong address ends the process";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_bad_program(*backend), testing::ExitedWithCode(0),
              "device error: .*work since the last wait: 'broken draft x3'");
}

}  // namespace
}  // namespace foretoken::test
