// The skeleton refuses each call that would use a device, with a reason.
#include "backends/null/null_backend.h"
#include "tests/conformance/interface/devices.h"

namespace foretoken::test {
namespace {

void expect_refusal(const std::function<void()>& call) { expect_error(call, ErrorCode::kUnsupported, {"no device"}); }

TEST(NullBackend, RefusesEveryCall) {
  null::NullBackend backend;
  expect_refusal([&] { static_cast<void>(backend.allocate(64, MemoryKind::kDevice)); });
  expect_refusal([&] { static_cast<void>(backend.adopt_memory({.handle = 4096, .offset = 0, .bytes = 64})); });
  expect_refusal([&] { static_cast<void>(backend.adopt_stream(nullptr)); });
  expect_refusal([&] { static_cast<void>(backend.record("nothing", [](CommandList&) {})); });
  EXPECT_EQ(backend.allocated_bytes(), 0U);
  EXPECT_TRUE(backend.ops().find("rms_norm").empty());
  EXPECT_EQ(backend.capabilities().backend, "null");
  EXPECT_FALSE(backend.capabilities().bf16_prefill);
  EXPECT_FALSE(backend.capabilities().weight_format(WeightFormat::kBF16).storable);
}

TEST(NullBackend, ItsStreamRefusesEveryCall) {
  null::NullBackend backend;
  const auto stream = backend.create_stream();
  const auto event = backend.create_event();
  expect_refusal([&] { stream->run([](CommandList&) {}); });
  expect_refusal([&] { stream->run(Program()); });
  expect_refusal([&] { stream->upload({}, {}); });
  expect_refusal([&] { stream->download({}, {}); });
  expect_refusal([&] { stream->copy({}, {}); });
  expect_refusal([&] { stream->record(*event); });
  expect_refusal([&] { stream->wait(*event); });
  expect_refusal([&] { stream->synchronize(); });
  expect_refusal([&] { static_cast<void>(event->is_complete()); });
  expect_refusal([&] { event->synchronize(); });
  expect_refusal([&] { static_cast<void>(event->elapsed_us(*event)); });
}

TEST(NullBackend, ItsProviderFindsNoDevice) {
  const null::NullProvider provider;
  EXPECT_FALSE(provider.availability());
  EXPECT_TRUE(provider.devices().empty());
  expect_refusal([&] { static_cast<void>(provider.open(0, {})); });
}

}  // namespace
}  // namespace foretoken::test
