// Threads that share a drafter, and drafters that share a device.
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "api_session.h"

namespace foretoken::test {
namespace {

using Drafts = std::vector<std::vector<int32_t>>;

Drafter load(const Device& device, const Target& target, int32_t max_sequences) {
  auto options = defaults<foretoken_drafter_options>();
  options.max_seq_len = 128;
  options.max_sequences = max_sequences;
  options.max_drafts = kDrafts;
  return Drafter(device, target.drafter_source(), options);
}

class ThreadsApi : public testing::Test {
 protected:
  ThreadsApi() {
    for (int32_t i = 0; i < 4; ++i) {
      recordings_.push_back(record(target_, prompt_of(i, 7 + static_cast<size_t>(i)), 16));
    }
    const Drafter drafter = load(device_, target_, 1);
    for (const Recording& recording : recordings_) {
      expected_.push_back(draft(device_, drafter.sequence(64), recording, Place::kHost));
    }
  }

  Device device_ = open_test_device();
  Target target_{device_, bundled("tiny-dense")};
  std::vector<Recording> recordings_;
  std::vector<Drafts> expected_;
};

TEST_F(ThreadsApi, TwoThreadsWithTwoSequencesEachOnOneDrafter) {
  const Drafter drafter = load(device_, target_, 4);
  std::array<Drafts, 4> got;
  const auto work = [&](size_t first) {
    const std::array<Sequence, 2> sequences{drafter.sequence(64), drafter.sequence(64)};
    for (size_t i = 0; i < 2; ++i) got[first + i] = draft(device_, sequences[i], recordings_[first + i], Place::kHost);
  };
  std::thread other(work, 2);
  work(0);
  other.join();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected_[i]) << i;
}

TEST_F(ThreadsApi, TwoDraftersOnOneDevice) {
  std::array<Drafts, 2> got;
  const auto work = [&](size_t i) {
    const Drafter drafter = load(device_, target_, 1);
    got[i] = draft(device_, drafter.sequence(64), recordings_[i], Place::kDevice);
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected_[i]) << i;
}

TEST_F(ThreadsApi, AHandleIsFreedWhileAnotherThreadUsesIt) {
  foretoken_drafter* drafter = nullptr;
  const foretoken_drafter_source source = target_.drafter_source();
  ASSERT_EQ(foretoken_drafter_load(device_.get(), &source, nullptr, &drafter), FORETOKEN_OK);
  std::thread user([&] {
    auto info = defaults<foretoken_drafter_info>();
    while (foretoken_drafter_get_info(drafter, &info) == FORETOKEN_OK) {
    }
    EXPECT_EQ(foretoken_drafter_get_info(drafter, &info), FORETOKEN_INVALID_HANDLE);
  });
  EXPECT_EQ(foretoken_drafter_free(drafter), FORETOKEN_OK);
  user.join();
}

}  // namespace
}  // namespace foretoken::test
