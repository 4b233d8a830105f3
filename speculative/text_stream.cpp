#include "speculative/text_stream.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace foretoken {

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_strings, TextFn on_text)
    : decoder_(tokenizer, /*skip_special_tokens=*/true), stop_strings_(std::move(stop_strings)), on_text_(std::move(on_text)) {
  if (std::ranges::any_of(stop_strings_, &std::string::empty)) {
    throw Error(ErrorCode::kInvalidArgument, "a stop string is empty, expected at least one character");
  }
}

bool TextStream::push(int32_t id) {
  held_ += decoder_.push(id);
  size_t stop = std::string::npos;
  for (const std::string& one : stop_strings_) stop = std::min(stop, held_.find(one));
  if (stop == std::string::npos) {
    give_out(held_.size() - undecided());
    return false;
  }
  give_out(stop);
  held_.clear();
  static_cast<void>(decoder_.flush());
  return true;
}

void TextStream::finish() {
  held_ += decoder_.flush();
  give_out(held_.size());
}

void TextStream::give_out(size_t count) {
  if (count == 0) return;
  text_.append(held_, 0, count);
  if (on_text_) on_text_(std::string_view(held_).substr(0, count));
  held_.erase(0, count);
}

size_t TextStream::undecided() const {
  const std::string_view held(held_);
  size_t longest = 0;
  for (const std::string& stop : stop_strings_) {
    for (size_t length = std::min(held.size(), stop.size() - 1); length > longest; --length) {
      if (held.ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return longest;
}

}  // namespace foretoken
