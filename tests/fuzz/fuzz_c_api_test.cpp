// Sequences of C API calls with arguments drawn at random: handles good, stale and of the wrong kind, sizes in and out of range.
// Every call must end with a status, an error with a message, and the memory of the device must come back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "foretoken.h"

namespace {

class Caller {
 public:
  explicit Caller(uint32_t seed) : random_(seed) {
    EXPECT_EQ(foretoken_device_open("cpu", nullptr, &device_), FORETOKEN_OK);
    handles_.push_back(device_);
    EXPECT_EQ(foretoken_device_allocated_bytes(device_, &bytes_before_), FORETOKEN_OK);
  }

  /// One call of the table.
  void call() {
    const auto& entry = table()[pick(table().size())];
    const foretoken_status status = entry();
    ASSERT_GE(status, FORETOKEN_OK);
    ASSERT_LE(status, FORETOKEN_INVALID_HANDLE) << "an internal error is a bug: " << foretoken_last_error();
    if (status == FORETOKEN_OK) {
      ++num_good_;
    } else {
      ASSERT_STRNE(foretoken_last_error(), "");
    }
  }

  /// Frees everything by trying each way to free each handle; those of targets' hidden states go with their targets.
  void free_all() {
    for (void* handle : handles_) {
      if (handle == device_) continue;
      static_cast<void>(foretoken_sequence_free(as<foretoken_sequence>(handle)));
      static_cast<void>(foretoken_kv_free(as<foretoken_kv>(handle)));
      static_cast<void>(foretoken_drafter_free(as<foretoken_drafter>(handle)));
      static_cast<void>(foretoken_target_sequence_free(as<foretoken_target_sequence>(handle)));
      static_cast<void>(foretoken_target_free(as<foretoken_target>(handle)));
      static_cast<void>(foretoken_buffer_free(as<foretoken_buffer>(handle)));
    }
    uint64_t bytes = 0;
    ASSERT_EQ(foretoken_device_allocated_bytes(device_, &bytes), FORETOKEN_OK);
    EXPECT_EQ(bytes, bytes_before_);
    EXPECT_EQ(foretoken_device_close(device_), FORETOKEN_OK);
  }

  [[nodiscard]] int num_good() const { return num_good_; }

 private:
  template <class T>
  static T* as(void* handle) {
    return static_cast<T*>(handle);
  }
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  int64_t number() {
    static constexpr std::array<int64_t, 12> kNumbers{-1, 0, 1, 1, 2, 3, 4, 8, 15, 16, 100, INT32_MAX};
    return kNumbers[pick(kNumbers.size())];
  }
  int32_t small_number() { return static_cast<int32_t>(number()); }
  /// A handle of any age and kind; the later ones more often, since they are the ones that are alive.
  template <class T>
  T* handle() {
    if (pick(40) == 0) return nullptr;
    const size_t recent = std::min<size_t>(handles_.size(), 12);
    return as<T>(pick(4) == 0 ? handles_[pick(handles_.size())] : handles_[handles_.size() - 1 - pick(recent)]);
  }
  const int32_t* token_ids() { return pick(30) == 0 ? nullptr : ids_.data(); }
  foretoken_rows rows() {
    foretoken_rows rows{};
    if (pick(3) != 0) rows.host = states_.data();
    if (rows.host == nullptr || pick(20) == 0) rows.buffer = handle<foretoken_buffer>();
    rows.num_rows = std::min<int64_t>(number(), 20);
    rows.row_stride = pick(4) == 0 ? std::min<int64_t>(number(), 256) : 0;
    rows.dtype = pick(8) == 0 ? static_cast<foretoken_dtype>(small_number()) : FORETOKEN_F32;
    if (rows.buffer != nullptr) rows.offset = static_cast<uint64_t>(number());
    return rows;
  }
  template <class T>
  foretoken_status keep(foretoken_status status, T* const& made) {  // a reference: written by the call before it
    if (status == FORETOKEN_OK) handles_.push_back(made);
    return status;
  }

  foretoken_status load_drafter() {
    foretoken_drafter_source source{};
    source.struct_size = sizeof(source);
    if (pick(2) == 0) {
      source.model = pick(5) == 0 ? "/no/such/model" : FORETOKEN_TEST_DATA "/tiny-dense";
    } else {
      source.target = handle<foretoken_target>();
    }
    foretoken_drafter_options options{};
    options.struct_size = pick(20) == 0 ? static_cast<size_t>(number()) : sizeof(options);
    options.max_seq_len = pick(3) == 0 ? number() : 32;
    options.max_sequences = pick(3) == 0 ? std::min(small_number(), 16) : 2;
    options.max_drafts = pick(3) == 0 ? small_number() : 3;
    foretoken_drafter* drafter = nullptr;
    return keep(foretoken_drafter_load(device_, &source, &options, &drafter), drafter);
  }
  foretoken_status load_target() {
    foretoken_target_options options{};
    options.struct_size = sizeof(options);
    options.max_seq_len = pick(3) == 0 ? number() : 32;
    options.max_sequences = 2;
    foretoken_target* target = nullptr;
    return keep(foretoken_target_load(device_, FORETOKEN_TEST_DATA "/tiny-dense", &options, &target), target);
  }
  foretoken_status propose_batch() {
    std::array<foretoken_draft, 3> drafts{};
    std::array<int32_t, 48> written{};
    for (size_t i = 0; i < drafts.size(); ++i) {
      drafts[i] = {handle<foretoken_sequence>(), token_ids(), rows(), small_number(), written.data() + 16 * i, nullptr, 0};
    }
    return foretoken_propose_batch(handle<foretoken_drafter>(), drafts.data(), pick(4));
  }
  foretoken_status step() {
    std::array<foretoken_step, 2> steps{};
    std::array<int32_t, 64> picks{};
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i] = {handle<foretoken_target_sequence>(), token_ids(), std::min(small_number(), 17), picks.data() + 32 * i, 0, {}};
    }
    const foretoken_status status = foretoken_target_step(handle<foretoken_target>(), steps.data(), pick(3));
    return keep(status, steps[0].hidden.buffer);
  }

  using Table = std::vector<std::function<foretoken_status()>>;
  const Table& table() {
    if (!table_.empty()) return table_;
    const auto sequence = [this] { return handle<foretoken_sequence>(); };
    table_.emplace_back([this] { return load_drafter(); });
    table_.emplace_back([this] { return load_target(); });
    table_.emplace_back([this] {
      foretoken_buffer* buffer = nullptr;
      return keep(foretoken_buffer_create(device_, static_cast<uint64_t>(std::min<int64_t>(number(), 1 << 14)), &buffer), buffer);
    });
    for (int i = 0; i < 4; ++i) {  // more often than they are freed
      table_.emplace_back([this] {
        foretoken_sequence* made = nullptr;
        return keep(foretoken_sequence_create(handle<foretoken_drafter>(), std::min<int64_t>(number(), 32), &made), made);
      });
      table_.emplace_back([this] {
        foretoken_target_sequence* made = nullptr;
        return keep(foretoken_target_sequence_create(handle<foretoken_target>(), std::min<int64_t>(number(), 32), &made), made);
      });
      table_.emplace_back([this, sequence] {
        const foretoken_rows hidden = rows();
        return foretoken_sequence_prefill(sequence(), token_ids(), &hidden);
      });
      table_.emplace_back([this, sequence] {
        const foretoken_rows hidden = rows();
        std::array<int32_t, 16> drafts{};
        return foretoken_sequence_propose(sequence(), token_ids(), &hidden, small_number(), drafts.data(), nullptr);
      });
      table_.emplace_back([this, sequence] { return foretoken_sequence_after_verify(sequence(), small_number()); });
      table_.emplace_back([this] { return propose_batch(); });
      table_.emplace_back([this] { return step(); });
    }
    table_.emplace_back([this, sequence] { return foretoken_sequence_skip(sequence(), number()); });
    table_.emplace_back([this, sequence] {
      foretoken_kv* kv = nullptr;
      return keep(foretoken_sequence_take_kv(sequence(), &kv), kv);
    });
    table_.emplace_back([this, sequence] { return foretoken_sequence_install_kv(sequence(), handle<foretoken_kv>(), number()); });
    table_.emplace_back([this] {
      int64_t taken = 0;
      foretoken_rows hidden{};
      return foretoken_target_prefill(handle<foretoken_target_sequence>(), token_ids(), std::min<int64_t>(number(), 20), &taken,
                                      &hidden);
    });
    table_.emplace_back([this] {
      int32_t token = 0;
      foretoken_rows hidden{};
      return foretoken_target_finish_prefill(handle<foretoken_target_sequence>(), &token, &hidden);
    });
    table_.emplace_back([sequence] { return foretoken_sequence_free(sequence()); });
    table_.emplace_back([this] { return foretoken_kv_free(handle<foretoken_kv>()); });
    table_.emplace_back([this] { return foretoken_drafter_free(handle<foretoken_drafter>()); });
    table_.emplace_back([this] { return foretoken_target_free(handle<foretoken_target>()); });
    table_.emplace_back([this] { return foretoken_target_sequence_free(handle<foretoken_target_sequence>()); });
    return table_;
  }

  std::mt19937 random_;
  foretoken_device* device_ = nullptr;
  uint64_t bytes_before_ = 0;
  std::vector<void*> handles_;
  std::vector<int32_t> ids_ = std::vector<int32_t>(32, 17);
  std::vector<float> states_ = std::vector<float>(size_t{32} * 256, 0.5F);
  Table table_;
  int num_good_ = 0;
};

class CApiFuzz : public testing::TestWithParam<uint32_t> {};

TEST_P(CApiFuzz, EveryCallEndsWithAStatus) {
  Caller caller(GetParam());
  for (int i = 0; i < 800 && !HasFatalFailure(); ++i) caller.call();
  EXPECT_GT(caller.num_good(), 60) << "calls that all fail reach nothing";
  caller.free_all();
}

INSTANTIATE_TEST_SUITE_P(Seeds, CApiFuzz, testing::Values(1U, 2U, 3U));

}  // namespace
