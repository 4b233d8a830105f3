// Uploads, downloads, copies and fills, and the arguments that they refuse.
#include <algorithm>

#include "tests/conformance/interface/devices.h"

namespace foretoken::test {
namespace {

class Copies : public InterfaceTest {};

TEST_P(Copies, RoundTripsOfManySizes) {
  for (const size_t count : {1U, 3U, 64U, 1000U, 300000U}) {
    const auto values = iota(count, 5);
    const Buffer buffer = upload(values);
    EXPECT_EQ(download(buffer.view()), values) << count;
  }
}

TEST_P(Copies, UploadLetsItsSourceGo) {
  const Buffer buffer = backend_->allocate(4000);
  auto values = iota(1000);
  stream_->upload(std::as_bytes(std::span(values)), buffer.view());
  std::ranges::fill(values, -1);
  EXPECT_EQ(download(buffer.view()), iota(1000));
}

TEST_P(Copies, PartsLeaveTheRestAlone) {
  const Buffer buffer = upload(iota(100));
  const std::vector<int32_t> patch{-1, -2, -3};
  stream_->upload(std::as_bytes(std::span(patch)), buffer.view().slice(40, 12));
  auto expected = iota(100);
  std::ranges::copy(patch, expected.begin() + 10);
  EXPECT_EQ(download(buffer.view()), expected);
  EXPECT_EQ(download(buffer.view().slice(36, 16)), (std::vector<int32_t>{9, -1, -2, -3}));
}

TEST_P(Copies, BytesThatAreNoWords) {
  const Buffer buffer = backend_->allocate(7);
  const std::vector<uint8_t> bytes{1, 2, 3, 4, 5, 6, 7};
  stream_->upload(std::as_bytes(std::span(bytes)), buffer.view());
  std::vector<uint8_t> got(5);
  stream_->download(buffer.view().slice(1, 5), std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, (std::vector<uint8_t>{2, 3, 4, 5, 6}));
}

TEST_P(Copies, DeviceToDevice) {
  for (const size_t count : {1U, 100U, 100003U}) {
    const Buffer from = upload(iota(count));
    const Buffer to = upload(std::vector<int32_t>(count, -7));
    stream_->copy(from.view(), to.view());
    EXPECT_EQ(download(to.view()), iota(count)) << count;
  }
  const Buffer buffer = upload(iota(100));
  stream_->copy(buffer.view().slice(0, 40), buffer.view().slice(40, 40));  // neighbours do not overlap
  auto expected = iota(100);
  std::copy_n(expected.begin(), 10, expected.begin() + 10);
  EXPECT_EQ(download(buffer.view()), expected);
}

TEST_P(Copies, FillWritesItsPatternAndNothingElse) {
  for (const size_t count : {1U, 5U, 100003U}) {
    const Buffer buffer = upload(iota(count + 2));
    stream_->run([&](CommandList& cmd) { cmd.fill(buffer.view().slice(4, count * 4), 0x80000001U); });
    auto expected = iota(count + 2);
    std::fill_n(expected.begin() + 1, count, static_cast<int32_t>(0x80000001U));
    EXPECT_EQ(download(buffer.view()), expected) << count;
  }
}

TEST_P(Copies, NothingIsDoneForZeroBytes) {
  const Buffer buffer = upload(iota(4));
  const BufferView nothing = buffer.view().slice(16, 0);
  stream_->upload({}, nothing);
  stream_->copy(nothing, buffer.view().slice(0, 0));
  stream_->run([&](CommandList& cmd) {
    cmd.fill(nothing, 1);
    cmd.copy(nothing, nothing);
  });
  EXPECT_TRUE(download(nothing).empty());
  EXPECT_EQ(download(buffer.view()), iota(4));
}

TEST_P(Copies, WrongArgumentsAreRefusedAtTheCall) {
  const Buffer buffer = upload(iota(16));
  const Buffer other = upload(iota(16));
  std::vector<std::byte> host(32);
  const auto view = buffer.view();
  const BufferView past{.buffer = view.buffer, .offset = 48, .bytes = 32};
  const BufferView null{.buffer = nullptr, .offset = 0, .bytes = 32};
  const BufferView wraps{.buffer = view.buffer, .offset = SIZE_MAX - 15, .bytes = 32};
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  expect_error([&] { stream_->upload(host, view); }, kInvalid, {"64", "32"});
  expect_error([&] { stream_->download(view, host); }, kInvalid, {"64", "32"});
  expect_error([&] { stream_->copy(view, other.view().slice(0, 32)); }, kInvalid, {"64", "32"});
  expect_error([&] { stream_->copy(view.slice(0, 32), view.slice(16, 32)); }, kInvalid, {"overlap"});
  for (const BufferView& bad : {past, null, wraps}) {
    expect_error([&] { stream_->upload(host, bad); }, kInvalid);
    expect_error([&] { stream_->download(bad, host); }, kInvalid);
    expect_error([&] { stream_->copy(bad, other.view().slice(0, 32)); }, kInvalid);
    expect_error([&] { stream_->copy(other.view().slice(0, 32), bad); }, kInvalid);
    expect_error([&] { stream_->run([&](CommandList& cmd) { cmd.fill(bad, 0); }); }, kInvalid);
  }
  expect_error([&] { stream_->run([&](CommandList& cmd) { cmd.fill(view.slice(0, 6), 0); }); }, kInvalid, {"multiple of 4"});
  stream_->synchronize();
  EXPECT_EQ(download(view), iota(16));
  EXPECT_EQ(download(other.view()), iota(16));
}

FORETOKEN_INTERFACE_SUITE(Copies);

}  // namespace
}  // namespace foretoken::test
