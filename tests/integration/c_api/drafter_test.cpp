// Drafters of the C API, fed by another engine's target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "api_session.h"

namespace foretoken::test {
namespace {

class DrafterApi : public testing::Test {
 protected:
  static constexpr size_t kPrompt = 21;
  static constexpr size_t kText = 40;

  [[nodiscard]] Drafter load(const foretoken_drafter_source& source, int32_t max_sequences = 1) const {
    auto options = defaults<foretoken_drafter_options>();
    options.max_seq_len = 256;
    options.max_sequences = max_sequences;
    options.max_drafts = kDrafts;
    options.prefill_chunk = 8;
    return Drafter(device_, source, options);
  }

  [[nodiscard]] Target load_target(const std::string& name = "tiny-dense") const {
    auto options = defaults<foretoken_target_options>();
    options.max_seq_len = 256;
    options.prefill_chunk = 16;
    return Target(device_, bundled(name), options);
  }

  Device device_ = open_test_device();
};

template <class Fn>
foretoken_status status_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()), "");
    return error.status();
  }
  return FORETOKEN_OK;
}

TEST_F(DrafterApi, DraftsAreTheSameWhereverHiddenStatesLie) {
  const Target target = load_target();
  const Recording recording = record(target, prompt_of(1, kPrompt), kText);
  const Drafter drafter = load(target.drafter_source());
  const auto expected = draft(device_, drafter.sequence(256), recording, Place::kHost);
  ASSERT_GT(expected.size(), 4U);
  for (const Place place : {Place::kHostWithGaps, Place::kDevice, Place::kDeviceWithGaps}) {
    EXPECT_EQ(draft(device_, drafter.sequence(256), recording, place), expected) << static_cast<int>(place);
  }
  EXPECT_GT(drafter.statistics().accepted, 0) << "a head that never guesses right shows nothing";
}

TEST_F(DrafterApi, ASharedTargetIsNotCopied) {
  const Target target = load_target();
  const Drafter shared = load(target.drafter_source());
  const uint64_t embedding = uint64_t{4096} * 192 * 2;
  EXPECT_GE(shared.memory().lent_bytes, embedding);
  const Drafter own(device_, bundled("tiny-dense"));
  EXPECT_GE(own.memory().weight_bytes, shared.memory().weight_bytes + embedding);
  EXPECT_EQ(own.memory().lent_bytes, 0U);
}

TEST_F(DrafterApi, SequencesDraftTogetherAsAlone) {
  const Target target = load_target();
  const Drafter drafter = load(target.drafter_source(), 3);
  std::vector<Recording> recordings;
  std::vector<Sequence> sequences;
  std::vector<std::vector<int32_t>> alone;
  std::vector<foretoken_draft> drafts;
  std::vector<std::vector<int32_t>> together(3, std::vector<int32_t>(kDrafts));
  for (int32_t i = 0; i < 3; ++i) {
    recordings.push_back(record(target, prompt_of(10 + i, 5 + static_cast<size_t>(i) * 3), 12));
    alone.push_back(draft(device_, drafter.sequence(64), recordings.back(), Place::kHost).front());
  }
  for (size_t i = 0; i < recordings.size(); ++i) {
    const Recording& recording = recordings[i];
    sequences.push_back(drafter.sequence(64));
    const std::span<const int32_t> tokens(recording.tokens);
    // All rows at once, more than a chain begins with: the oldest are taken in before.
    foretoken_draft one{};
    one.sequence = sequences.back().get();
    one.next_token_ids = tokens.data() + 1;
    one.hidden = host_rows(recording.hidden.data(), static_cast<int64_t>(recording.num_prompt));
    one.num_drafts = kDrafts;
    one.draft_token_ids = together[i].data();
    drafts.push_back(one);
  }
  drafter.propose(drafts);
  EXPECT_EQ(together, alone);
}

TEST_F(DrafterApi, TakenRowsGoOnInAnotherSequence) {
  const Target target = load_target();
  const Recording recording = record(target, prompt_of(2, kPrompt), kText);
  const Drafter drafter = load(target.drafter_source(), 2);
  const auto expected = draft(device_, drafter.sequence(128), recording, Place::kHost);

  const std::span<const int32_t> tokens(recording.tokens);
  const Sequence first = drafter.sequence(128);
  first.prefill(tokens.subspan(1, kPrompt - 1), host_rows(recording.hidden.data(), kPrompt - 1));
  DrafterKv kv = first.take_kv();
  EXPECT_EQ(kv.num_keys(), static_cast<int64_t>(kPrompt) - 1);
  EXPECT_EQ(first.num_rows(), 0);
  const Sequence second = drafter.sequence(128);
  EXPECT_EQ(status_of([&] { second.install_kv(std::move(kv), 1000); }), FORETOKEN_INVALID_ARGUMENT);
  second.install_kv(std::move(kv), 12);
  EXPECT_EQ(second.next_key(), 12);
  const float* rest = recording.hidden.data() + 12 * recording.hidden_size;
  const auto drafts = second.propose(tokens.subspan(13, kPrompt - 12), host_rows(rest, kPrompt - 12), kDrafts);
  EXPECT_EQ(drafts, expected.front());
}

TEST_F(DrafterApi, DraftsStayOnTheDevice) {
  const Target target = load_target();
  const Recording recording = record(target, prompt_of(3, 6), 4);
  const Drafter drafter = load(target.drafter_source());
  drafter.prepare(1, kDrafts, FORETOKEN_F32);
  const Sequence sequence = drafter.sequence(64);
  foretoken_draft one{};
  one.sequence = sequence.get();
  one.next_token_ids = recording.tokens.data() + 1;
  one.hidden = host_rows(recording.hidden.data(), 3);
  one.num_drafts = 2;
  drafter.propose(std::span(&one, 1));
  EXPECT_EQ(one.num_drafted, 2);
  uint64_t address = 0;
  int64_t row_stride = 0;
  detail::check(foretoken_drafter_get_device_token_ids(drafter.get(), &address, &row_stride));
  EXPECT_NE(address, 0U);
  EXPECT_EQ(row_stride, 1 + kDrafts);
}

TEST_F(DrafterApi, LogProbabilitiesAreAskedFor) {
  const Target target = load_target();
  const Recording recording = record(target, prompt_of(4, 6), 4);
  foretoken_draft one{};
  float values[2] = {1.0F, 1.0F};
  int32_t ids[2];
  one.next_token_ids = recording.tokens.data() + 1;
  one.hidden = host_rows(recording.hidden.data(), 3);
  one.num_drafts = 2;
  one.draft_token_ids = ids;
  one.log_probabilities = values;
  const Drafter without = load(target.drafter_source());
  const Sequence unmeasured = without.sequence(64);
  one.sequence = unmeasured.get();
  EXPECT_EQ(status_of([&] { without.propose(std::span(&one, 1)); }), FORETOKEN_INVALID_ARGUMENT);
  EXPECT_EQ(unmeasured.num_rows(), 0) << "a call that fails changes nothing";

  auto options = defaults<foretoken_drafter_options>();
  options.log_probabilities = 1;
  options.max_seq_len = 64;
  const Drafter drafter(device_, target.drafter_source(), options);
  const Sequence sequence = drafter.sequence(64);
  one.sequence = sequence.get();
  drafter.propose(std::span(&one, 1));
  for (const float value : values) {
    EXPECT_LT(value, 0.0F);
    EXPECT_GT(value, -20.0F);
  }
}

TEST_F(DrafterApi, ALaterVersionsOptionsAreRefusedWhenSet) {
  struct {
    foretoken_drafter_options known;
    uint64_t later;
  } options{};
  options.known.struct_size = sizeof(options);
  options.known.max_seq_len = 64;
  auto source = defaults<foretoken_drafter_source>();
  const std::string model = bundled("tiny-dense");
  source.model = model.c_str();
  foretoken_drafter* drafter = nullptr;
  ASSERT_EQ(foretoken_drafter_load(device_.get(), &source, &options.known, &drafter), FORETOKEN_OK) << foretoken_last_error();
  EXPECT_EQ(foretoken_drafter_free(drafter), FORETOKEN_OK);
  options.later = 1;
  EXPECT_EQ(foretoken_drafter_load(device_.get(), &source, &options.known, &drafter), FORETOKEN_UNSUPPORTED);
}

TEST_F(DrafterApi, AnEarlierVersionsStructureGetsWhatItHas) {
  const Drafter drafter(device_, bundled("tiny-dense"));
  auto info = defaults<foretoken_drafter_info>();
  info.struct_size = offsetof(foretoken_drafter_info, max_seq_len);
  info.max_seq_len = -7;
  ASSERT_EQ(foretoken_drafter_get_info(drafter.get(), &info), FORETOKEN_OK);
  EXPECT_EQ(info.hidden_size, 192);
  EXPECT_EQ(info.max_seq_len, -7) << "past the end of what the caller has";
}

TEST_F(DrafterApi, ADrafterWithoutWeightsSaysWhatIsMissing) {
  const std::string config = [&] {
    std::ifstream in(bundled("tiny-dense") + "/config.json");
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  auto source = defaults<foretoken_drafter_source>();
  source.config_json = config.c_str();
  foretoken_drafter* drafter = nullptr;
  EXPECT_EQ(foretoken_drafter_load(device_.get(), &source, nullptr, &drafter), FORETOKEN_FORMAT_ERROR);
  EXPECT_THAT(foretoken_last_error(), testing::HasSubstr("embed_tokens"));
}

TEST_F(DrafterApi, MemoryIsReturned) {
  const uint64_t before = device_.allocated_bytes();
  {
    const Target target = load_target();
    const Drafter drafter = load(target.drafter_source());
    const Recording recording = record(target, prompt_of(5, kPrompt), 10);
    const Sequence sequence = drafter.sequence(64);
    EXPECT_EQ(draft(device_, sequence, recording, Place::kDevice).empty(), false);
    EXPECT_GT(device_.allocated_bytes(), before);
  }
  EXPECT_EQ(device_.allocated_bytes(), before);
}

}  // namespace
}  // namespace foretoken::test
