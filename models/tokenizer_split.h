// The pre-tokenizer's Split rule: cuts a text into words by a regular expression of the checkpoint.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "models/tokenizer_spec.h"

namespace foretoken::tokenizer_detail {

/// The same pattern for PCRE2: patterns are written for Oniguruma, whose \s is Unicode White_Space, while PCRE2's is not quite.
/// Throws Unsupported for class syntax that the two engines read differently (nested classes, &&).
[[nodiscard]] std::string translate_pattern(std::string_view pattern);

/// One compiled rule; immutable, usable from several threads at once.
class Splitter {
 public:
  /// Throws FormatError with the offset when the pattern does not compile, Unsupported as translate_pattern does.
  explicit Splitter(const SplitRule& rule);

  /// Calls `emit` for every match and every stretch between matches, in order; together they are `text` (well-formed UTF-8).
  /// Empty pieces are left out. Throws InvalidArgument when matching exceeds its budget.
  void split(std::string_view text, const std::function<void(std::string_view)>& emit) const;

 private:
  std::shared_ptr<const void> code_;  // a pcre2_code; shared, so that a Splitter can be copied
  std::string item_;
};

}  // namespace foretoken::tokenizer_detail
