// What tests of the C API start from: a device, the bundled target, and texts that were decoded with and without drafts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "foretoken/foretoken.hpp"

namespace foretoken::test {

inline constexpr int32_t kDrafts = 4;

/// The device that tests run on: FORETOKEN_TEST_BACKEND, else the CPU with two threads.
[[nodiscard]] Device open_test_device();
/// Folder of a bundled checkpoint.
[[nodiscard]] std::string bundled(const std::string& name);

[[nodiscard]] std::vector<int32_t> prompt_of(int32_t seed, size_t num_tokens);

/// What a target said of one prompt: rows and the tokens that follow, as a drafter of another engine gets them.
struct Recording {
  std::vector<int32_t> tokens;  // prompt and text
  size_t num_prompt = 0;
  int64_t hidden_size = 0;
  std::vector<float> hidden;  // [tokens.size() - 1, hidden_size], of all tokens but the last
};

/// Plain text of a target, with all hidden states on the host.
[[nodiscard]] Recording record(const Target& target, std::span<const int32_t> prompt, size_t num_tokens);

/// How hidden states reach the drafter.
enum class Place : uint8_t { kHost, kHostWithGaps, kDevice, kDeviceWithGaps };

/// The drafts of every round of a recorded text, when the target accepts what the text has.
[[nodiscard]] std::vector<std::vector<int32_t>> draft(const Device& device, const Sequence& sequence, const Recording& recording,
                                                      Place place);

/// How many leading drafts a text has at `position`.
[[nodiscard]] int32_t num_held(const Recording& recording, size_t position, std::span<const int32_t> drafts);

}  // namespace foretoken::test
