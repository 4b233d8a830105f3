#include "api_session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace foretoken::test {
namespace {

constexpr size_t kGap = 16;  // elements between rows

/// `count` rows of a recording from row `first` on, in memory that lives as long as this.
class PlacedRows {
 public:
  PlacedRows(const Device& device, const Recording& recording, size_t first, size_t count, Place place) {
    const auto hidden_size = static_cast<size_t>(recording.hidden_size);
    const bool has_gaps = place == Place::kHostWithGaps || place == Place::kDeviceWithGaps;
    const size_t stride = hidden_size + (has_gaps ? kGap : 0);
    memory_.assign(count * stride, -1.0e30F);  // what lies in gaps must not be read
    for (size_t row = 0; row < count; ++row) {
      std::memcpy(memory_.data() + row * stride, recording.hidden.data() + (first + row) * hidden_size,
                  hidden_size * sizeof(float));
    }
    memory_.resize(count * stride - (has_gaps ? kGap : 0));  // the last row has no gap behind it
    rows_ = host_rows(memory_.data(), static_cast<int64_t>(count));
    if (place == Place::kDevice || place == Place::kDeviceWithGaps) {
      buffer_.emplace_back(device, memory_.size() * sizeof(float)).upload(std::span<const float>(memory_));
      rows_ = device_rows(buffer_.front(), 0, static_cast<int64_t>(count), FORETOKEN_F32);
    }
    rows_.row_stride = static_cast<int64_t>(stride);
  }

  [[nodiscard]] const foretoken_rows& rows() const { return rows_; }

 private:
  std::vector<float> memory_;
  std::vector<Buffer> buffer_;
  foretoken_rows rows_{};
};

float float_of_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0.0F;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

void append_hidden(const foretoken_rows& rows, int64_t hidden_size, std::vector<float>& hidden) {
  const auto count = static_cast<size_t>(rows.num_rows * hidden_size);
  if (rows.dtype == FORETOKEN_F32) {
    hidden.resize(hidden.size() + count);
    detail::check(foretoken_buffer_download(rows.buffer, rows.offset, hidden.data() + hidden.size() - count, count * 4));
    return;
  }
  std::vector<uint16_t> bits(count);
  detail::check(foretoken_buffer_download(rows.buffer, rows.offset, bits.data(), count * 2));
  std::ranges::transform(bits, std::back_inserter(hidden), float_of_bf16);
}

}  // namespace

Device open_test_device() {
  const char* selector = std::getenv("FORETOKEN_TEST_BACKEND");
  auto options = defaults<foretoken_device_options>();
  options.num_threads = 2;
  return Device(selector == nullptr ? "cpu" : selector, options);
}

std::string bundled(const std::string& name) { return std::string(FORETOKEN_TEST_DATA) + "/" + name; }

std::vector<int32_t> prompt_of(int32_t seed, size_t num_tokens) {
  std::vector<int32_t> prompt(num_tokens);
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761U + 12345U;
  for (int32_t& id : prompt) {
    state = state * 1664525U + 1013904223U;
    id = static_cast<int32_t>(state >> 20);  // below 4096
  }
  return prompt;
}

Recording record(const Target& target, std::span<const int32_t> prompt, size_t num_tokens) {
  Recording recording{.tokens = {prompt.begin(), prompt.end()},
                      .num_prompt = prompt.size(),
                      .hidden_size = target.info().hidden_size,
                      .hidden = {}};
  const TargetSequence sequence = target.sequence(static_cast<int64_t>(prompt.size() + num_tokens));
  for (size_t done = 0; done < prompt.size();) {
    const foretoken_rows hidden = sequence.prefill(prompt.subspan(done));
    append_hidden(hidden, recording.hidden_size, recording.hidden);
    done += static_cast<size_t>(hidden.num_rows);
  }
  recording.tokens.push_back(sequence.finish_prefill().token_id);
  while (recording.tokens.size() < prompt.size() + num_tokens) {
    const TargetStep step = target.step(sequence, std::span(recording.tokens).last(1));
    append_hidden(step.hidden, recording.hidden_size, recording.hidden);
    recording.tokens.push_back(step.picks.front());
  }
  return recording;
}

int32_t num_held(const Recording& recording, size_t position, std::span<const int32_t> drafts) {
  int32_t held = 0;
  for (const int32_t id : drafts) {
    if (position + static_cast<size_t>(held) >= recording.tokens.size()) break;
    if (recording.tokens[position + static_cast<size_t>(held)] != id) break;
    ++held;
  }
  return held;
}

std::vector<std::vector<int32_t>> draft(const Device& device, const Sequence& sequence, const Recording& recording, Place place) {
  const std::span<const int32_t> tokens(recording.tokens);
  const PlacedRows prompt(device, recording, 0, recording.num_prompt - 1, place);
  sequence.prefill(tokens.subspan(1, recording.num_prompt - 1), prompt.rows());
  std::vector<std::vector<int32_t>> rounds;
  size_t known = recording.num_prompt + 1;  // tokens that the target has committed; the newest one is not in its caches
  size_t fresh = 1;                         // of them the drafter has not seen
  while (known < tokens.size()) {
    const PlacedRows rows(device, recording, known - fresh - 1, fresh, place);
    rounds.push_back(sequence.propose(tokens.subspan(known - fresh, fresh), rows.rows(), kDrafts));
    const int32_t held = num_held(recording, known, rounds.back());
    sequence.after_verify(held);
    fresh = static_cast<size_t>(held) + 1;
    known += fresh;
  }
  return rounds;
}

}  // namespace foretoken::test
