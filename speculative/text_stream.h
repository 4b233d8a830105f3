// The text of a sequence as its ids come, up to the first of some stop strings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer.h"

namespace foretoken {

/// Gives out text once it cannot belong to a stop string any more. The tokenizer must outlive it. Not thread-safe.
class TextStream {
 public:
  using TextFn = std::function<void(std::string_view)>;

  /// `on_text` may be empty. Throws InvalidArgument for an empty stop string.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_strings, TextFn on_text);

  /// Takes the next id; true when a stop string is there now: the text ends before it, and nothing must follow.
  [[nodiscard]] bool push(int32_t id);
  /// The end of the ids: gives out what was held back.
  void finish();
  /// All that was given out.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void give_out(size_t count);
  /// Length of the longest end of the held text that begins a stop string.
  [[nodiscard]] size_t undecided() const;

  StreamDecoder decoder_;
  std::vector<std::string> stop_strings_;
  TextFn on_text_;
  std::string held_;
  std::string text_;
};

}  // namespace foretoken
