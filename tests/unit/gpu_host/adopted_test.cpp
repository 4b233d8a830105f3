// Streams and memory of a caller that uses the runtime itself. Compiled for each backend of this kind; skipped without a device.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "backends/gpu/host/handles.h"
#include "backends/gpu/host/provider.h"
#include "core/error.h"

namespace foretoken::FORETOKEN_GPU_NAMESPACE {
namespace {

constexpr size_t kCount = size_t{16} << 20;  // a copy that takes a while
constexpr size_t kBytes = kCount * sizeof(int32_t);

struct FreeDevice {
  void operator()(std::byte* data) const { check_in_destructor(runtime::free(data)); }
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDevice>;

DeviceMemory make_device_memory(size_t bytes) {
  void* data = nullptr;
  check(runtime::allocate(&data, bytes));
  return DeviceMemory(static_cast<std::byte*>(data));
}

NativeMemory native(const void* data, size_t bytes) {
  return {.handle = reinterpret_cast<uint64_t>(data), .offset = 0, .bytes = bytes};
}

void expect_error(const std::function<void()>& call, ErrorCode code, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown, expected " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

class AdoptedStream : public testing::Test {
 protected:
  void SetUp() override {
    if (const Availability available = provider_.availability(); !available) GTEST_SKIP() << available.reason();
    backend_ = provider_.open(0, {});
    use_device(0);
    stream_ = make_stream();
    source_ = make_pinned(kBytes);
    result_ = make_pinned(kBytes);
    std::iota(values(source_), values(source_) + kCount, 3);
    std::memset(result_.get(), 0, kBytes);
    in_ = make_device_memory(kBytes);
    out_ = make_device_memory(kBytes);
  }

  static int32_t* values(const PinnedMemory& memory) { return reinterpret_cast<int32_t*>(memory.get()); }

  /// What the caller does before and after.
  void caller_writes(runtime::Stream stream) { check(runtime::copy_async(in_.get(), source_.get(), kBytes, stream)); }
  void caller_reads(runtime::Stream stream) {
    check(runtime::copy_async(result_.get(), out_.get(), kBytes, stream));
    check(runtime::synchronize(stream));
  }
  void expect_result() { EXPECT_EQ(std::memcmp(result_.get(), source_.get(), kBytes), 0); }

  /// The caller's copy in, ours from one to the other as a Program and at once, the caller's copy out; nobody waits in between.
  void run_between(runtime::Stream stream) {
    const Buffer in = backend_->adopt_memory(native(in_.get(), kBytes));
    const Buffer out = backend_->adopt_memory(native(out_.get(), kBytes));
    constexpr size_t kHalf = kBytes / 2;
    const Program program = backend_->record(
        "second half", [&](CommandList& cmd) { cmd.copy(in.view().slice(kHalf, kHalf), out.view().slice(kHalf, kHalf)); });
    const auto adopted = backend_->adopt_stream(stream);
    caller_writes(stream);
    adopted->copy(in.view().slice(0, kHalf), out.view().slice(0, kHalf));
    adopted->run(program);
    caller_reads(stream);
    expect_result();
  }

  RuntimeProvider provider_;
  std::unique_ptr<GpuBackend> backend_;
  StreamHandle stream_;
  PinnedMemory source_;
  PinnedMemory result_;
  DeviceMemory in_;
  DeviceMemory out_;
};

TEST_F(AdoptedStream, RunsBetweenWhatTheCallerPutThereBeforeAndAfter) { run_between(stream_.get()); }

TEST_F(AdoptedStream, TakesTheDefaultStream) { run_between(nullptr); }

TEST_F(AdoptedStream, MayGoWhileItsUploadsAreUnderWay) {
  const Buffer in = backend_->adopt_memory(native(in_.get(), kBytes));
  caller_writes(stream_.get());
  {
    const auto adopted = backend_->adopt_stream(stream_.get());
    std::vector<int32_t> zeros(kCount / 2, 0);
    adopted->upload(std::as_bytes(std::span(zeros)), in.view().slice(0, kBytes / 2));
  }
  check(runtime::copy_async(out_.get(), in_.get(), kBytes, stream_.get()));
  caller_reads(stream_.get());
  EXPECT_EQ(values(result_)[kCount / 2 - 1], 0);
  EXPECT_EQ(values(result_)[kCount / 2], values(source_)[kCount / 2]);
  std::memset(source_.get(), 0, kBytes / 2);
  expect_result();
}

TEST_F(AdoptedStream, ReadsBackWhatTheCallerWroteAndOrdersStreamsOfOurs) {
  const Buffer in = backend_->adopt_memory(native(in_.get(), kBytes));
  const Buffer out = backend_->adopt_memory(native(out_.get(), kBytes));
  const auto adopted = backend_->adopt_stream(stream_.get());
  const auto own = backend_->create_stream();
  const auto written = backend_->create_event();
  caller_writes(stream_.get());
  adopted->record(*written);
  own->wait(*written);
  own->copy(in.view(), out.view());
  const auto copied = backend_->create_event();
  own->record(*copied);
  adopted->wait(*copied);
  std::vector<int32_t> last(4);
  adopted->download(out.view().slice(kBytes - 16, 16), std::as_writable_bytes(std::span(last)));
  EXPECT_EQ(last, std::vector<int32_t>(values(source_) + kCount - 4, values(source_) + kCount));
  adopted->synchronize();
}

TEST_F(AdoptedStream, RefusesEveryCallWhileTheCallerCapturesIt) {
  const Buffer out = backend_->adopt_memory(native(out_.get(), kBytes));
  const Program program = backend_->record("fill", [&](CommandList& cmd) { cmd.fill(out.view(), 1); });
  const auto adopted = backend_->adopt_stream(stream_.get());
  const auto event = backend_->create_event();
  check(runtime::begin_capture(stream_.get()));
  const auto expect_refusal = [](const std::function<void()>& call) { expect_error(call, ErrorCode::kInvalidState, "captures"); };
  std::vector<std::byte> bytes(64);
  expect_refusal([&] { adopted->run(program); });
  expect_refusal([&] { adopted->run([](CommandList&) {}); });
  expect_refusal([&] { adopted->upload(bytes, out.view().slice(0, 64)); });
  expect_refusal([&] { adopted->download(out.view().slice(0, 64), bytes); });
  expect_refusal([&] { adopted->copy(out.view().slice(0, 64), out.view().slice(64, 64)); });
  expect_refusal([&] { adopted->record(*event); });
  expect_refusal([&] { adopted->wait(*event); });
  expect_refusal([&] { adopted->synchronize(); });
  expect_refusal([&] { static_cast<void>(backend_->adopt_stream(stream_.get())); });
  runtime::Graph graph = nullptr;
  check(runtime::end_capture(stream_.get(), graph));
  ASSERT_NE(graph, nullptr) << "the refused calls spoiled the capture";
  check(runtime::destroy(graph));
  adopted->synchronize();
  run_between(stream_.get());
}

TEST_F(AdoptedStream, IsOneOfThisDevice) {
  expect_error([&] { static_cast<void>(backend_->adopt_stream(reinterpret_cast<void*>(uintptr_t{2}))); },
               ErrorCode::kInvalidArgument, "every thread");
  if (provider_.devices().size() < 2) return;
  use_device(1);
  const StreamHandle foreign = make_stream();
  expect_error([&] { static_cast<void>(backend_->adopt_stream(foreign.get())); }, ErrorCode::kInvalidArgument, "this device");
  use_device(1);
  const DeviceMemory memory = make_device_memory(4096);
  expect_error([&] { static_cast<void>(backend_->adopt_memory(native(memory.get(), 4096))); }, ErrorCode::kInvalidArgument, ":1");
}

TEST_F(AdoptedStream, MemoryMustBeOfTheDeviceAllOfIt) {
  const auto expect_refusal = [&](const void* data, size_t bytes, const std::string& part) {
    expect_error([&] { static_cast<void>(backend_->adopt_memory(native(data, bytes))); }, ErrorCode::kInvalidArgument, part);
  };
  alignas(64) static int32_t host[64];
  expect_refusal(host, sizeof(host), "no such device");
  expect_refusal(source_.get(), kBytes, "no such device");
  expect_refusal(reinterpret_cast<const void*>(uintptr_t{16}), 64, "no such device");
  expect_refusal(in_.get(), size_t{1} << 42, "where the allocation ends");
  expect_refusal(in_.get() + 4, 64, "multiple of 16");
  const Buffer end = backend_->adopt_memory(native(in_.get() + kBytes - 16, 16));
  EXPECT_EQ(end.view().address(), reinterpret_cast<uint64_t>(in_.get()) + kBytes - 16);
  EXPECT_EQ(backend_->allocated_bytes(), 0U);
}

}  // namespace
}  // namespace foretoken::FORETOKEN_GPU_NAMESPACE
