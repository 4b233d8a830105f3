// Memory of the caller as a Buffer. The caller here is an allocation of the same device, by its native names.
#include <algorithm>

#include "backends/ops.h"
#include "tests/conformance/interface/devices.h"

namespace foretoken::test {
namespace {

class Adopted : public InterfaceTest {};

TEST_P(Adopted, MemoryIsReadAndWrittenInPlaceAndStaysTheCallers) {
  const Buffer owner = upload(iota(1000));
  const std::vector<int32_t> patch = iota(10, -10);
  const size_t allocated = backend_->allocated_bytes();
  {
    const Buffer adopted = backend_->adopt_memory(owner.view().native());
    EXPECT_EQ(backend_->allocated_bytes(), allocated);
    EXPECT_EQ(adopted.bytes(), 4000U);
    EXPECT_EQ(adopted.view().address(), owner.view().address());
    EXPECT_EQ(adopted.view().buffer->kind(), MemoryKind::kDevice);
    EXPECT_EQ(adopted.view().buffer->host_data(), nullptr);
    EXPECT_EQ(download(adopted.view()), iota(1000));
    stream_->upload(std::as_bytes(std::span(patch)), adopted.view().slice(160, 40));
    stream_->run([&](CommandList& cmd) {
      cmd.fill(adopted.view().slice(0, 8), 7);
      cmd.copy(adopted.view().slice(160, 40), adopted.view().slice(400, 40));
    });
    stream_->synchronize();
  }
  EXPECT_EQ(backend_->allocated_bytes(), allocated);
  auto expected = iota(1000);
  std::ranges::fill_n(expected.begin(), 2, 7);
  for (const std::ptrdiff_t at : {40, 100}) std::ranges::copy(patch, expected.begin() + at);
  EXPECT_EQ(download(owner.view()), expected);
}

TEST_P(Adopted, MemoryMayBeginInsideAnAllocation) {
  const Buffer owner = upload(iota(1000));
  const NativeMemory part = owner.view().slice(1600, 400).native();
  EXPECT_EQ(part.bytes, 400U);
  const Buffer adopted = backend_->adopt_memory(part);
  EXPECT_EQ(adopted.view().address(), owner.view().address() + 1600);
  EXPECT_EQ(download(adopted.view()), iota(100, 400));
  EXPECT_EQ(download(adopted.view().slice(40, 8)), iota(2, 410));
  const NativeMemory again = adopted.view().slice(16, 32).native();
  const Buffer nested = backend_->adopt_memory(again);
  EXPECT_EQ(download(nested.view()), iota(8, 404));
}

TEST_P(Adopted, OperatorsAndProgramsUseIt) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kWidth = 64;
  constexpr size_t kBytes = kRows * kWidth * sizeof(float);
  std::vector<float> x(kRows * kWidth);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8.0F;
  const std::vector<float> weight(kWidth, 0.5F);
  const Buffer own_x = backend_->allocate(kBytes);
  const Buffer own_weight = backend_->allocate(kWidth * sizeof(float));
  const Buffer own_out = backend_->allocate(2 * kBytes);
  stream_->upload(std::as_bytes(std::span(x)), own_x.view());
  stream_->upload(std::as_bytes(std::span(weight)), own_weight.view());
  const Buffer adopted_x = backend_->adopt_memory(own_x.view().native());
  const Buffer adopted_weight = backend_->adopt_memory(own_weight.view().native());
  const Buffer adopted_out = backend_->adopt_memory(own_out.view().slice(kBytes, kBytes).native());

  const auto norm = [&](const Buffer& in, const Buffer& w, const Buffer& out) {
    return [&](CommandList& cmd) {
      ops::rms_norm(cmd, in.tensor(DType::kF32, {kRows, kWidth}), w.tensor(DType::kF32, {kWidth}),
                    out.tensor(DType::kF32, {kRows, kWidth}), 1e-6F);
    };
  };
  stream_->run(norm(own_x, own_weight, own_out));
  const Program program = backend_->record("adopted", norm(adopted_x, adopted_weight, adopted_out));
  stream_->run(program);
  const auto both = download(own_out.view());
  const auto middle = both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2);
  EXPECT_NE(both[0], 0);
  EXPECT_TRUE(std::equal(both.begin(), middle, middle, both.end()));
}

TEST_P(Adopted, WorkOnTwoViewsOfOneMemoryIsOrdered) {
  const Buffer owner = upload(std::vector<int32_t>(4096, 0));
  const Buffer one = backend_->adopt_memory(owner.view().native());
  const Buffer other = backend_->adopt_memory(owner.view().native());
  expect_error([&] { stream_->copy(one.view().slice(0, 64), other.view().slice(32, 64)); }, ErrorCode::kInvalidArgument,
               {"overlap"});
  const Buffer out = backend_->allocate(owner.bytes());
  stream_->run([&](CommandList& cmd) {
    cmd.fill(one.view(), 1);
    cmd.copy(other.view(), out.view());
    cmd.fill(one.view(), 2);
  });
  EXPECT_EQ(download(out.view()), std::vector<int32_t>(4096, 1));
  EXPECT_EQ(download(other.view()), std::vector<int32_t>(4096, 2));
}

TEST_P(Adopted, MemoryThatIsNoneIsRefused) {
  const Buffer owner = backend_->allocate(256);
  const NativeMemory good = owner.view().native();
  const auto expect_refusal = [&](NativeMemory memory, const std::string& part) {
    expect_error([&] { static_cast<void>(backend_->adopt_memory(memory)); }, ErrorCode::kInvalidArgument, {part});
  };
  expect_refusal({.handle = 0, .offset = 0, .bytes = 64}, "null");
  expect_refusal({.handle = good.handle, .offset = good.offset, .bytes = 0}, "at least one byte");
  expect_refusal({.handle = good.handle, .offset = good.offset + 8, .bytes = 64}, "multiple of 16");
  expect_refusal({.handle = good.handle, .offset = good.offset, .bytes = SIZE_MAX - 100}, "");
  static_cast<void>(backend_->record("nothing", [&](CommandList&) {
    expect_error([&] { static_cast<void>(backend_->adopt_memory(good)); }, ErrorCode::kInvalidState, {"adopting memory"});
  }));
}

/// CUDA and HIP: the default stream, which a caller has without making one.
TEST_P(Adopted, StreamsOfTheCallerAreUsedWhereThereAreSome) {
  const std::string& name = backend_->capabilities().backend;
  if (name != "cuda" && name != "hip") {
    expect_error([&] { static_cast<void>(backend_->adopt_stream(nullptr)); }, ErrorCode::kUnsupported, {name, "no streams"});
    return;
  }
  const Buffer in = backend_->allocate(4000);
  const Buffer out = backend_->allocate(4000);
  const auto adopted = backend_->adopt_stream(nullptr);
  const Program program = backend_->record("copy", [&](CommandList& cmd) { cmd.copy(in.view(), out.view()); });
  const auto values = iota(1000, 9);
  adopted->upload(std::as_bytes(std::span(values)), in.view());
  adopted->run(program);
  const auto event = backend_->create_event();
  adopted->record(*event);
  stream_->wait(*event);
  EXPECT_EQ(download(out.view()), values);
  adopted->synchronize();
  expect_error([&] { static_cast<void>(backend_->adopt_stream(reinterpret_cast<void*>(uintptr_t{2}))); },
               ErrorCode::kInvalidArgument, {"every thread"});
}

FORETOKEN_INTERFACE_SUITE(Adopted);

}  // namespace
}  // namespace foretoken::test
