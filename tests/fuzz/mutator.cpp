#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace foretoken::fuzz {
namespace {

constexpr size_t kMaxBytes = 1 << 16;
constexpr std::array<std::string_view, 14> kNumbers{"0",
                                                    "-1",
                                                    "1",
                                                    "2147483647",
                                                    "2147483648",
                                                    "4294967296",
                                                    "9223372036854775807",
                                                    "9223372036854775808",
                                                    "18446744073709551615",
                                                    "1e999",
                                                    "1e-9",
                                                    "NaN",
                                                    "0.5",
                                                    "-9223372036854775808"};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string Mutator::mutate(std::string_view input) {
  std::string text(input);
  const size_t edits = 1 + below(6);
  for (size_t i = 0; i < edits; ++i) edit(text);
  if (text.size() > kMaxBytes) text.resize(kMaxBytes);
  return text;
}

void Mutator::edit(std::string& text) {
  const size_t at = below(text.size());
  const size_t count = std::min(text.size() - at, 1 + below(24));
  switch (below(7)) {
    case 0:
      if (!text.empty()) text[at] = static_cast<char>(generator_());
      break;
    case 1: text.erase(at, count); break;
    case 2: text.insert(below(text.size() + 1), text.substr(at, count)); break;
    case 3: text.insert(below(text.size() + 1), words_[below(words_.size())]); break;
    case 4: text.replace(at, count, words_[below(words_.size())]); break;
    case 5: text.resize(at); break;
    default: replace_number(text);
  }
}

void Mutator::replace_number(std::string& text) {
  const size_t start = below(text.size());
  const auto first = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(), is_digit);
  const auto last = std::find_if_not(first, text.end(), is_digit);
  text.replace(first, last, kNumbers[below(kNumbers.size())]);
}

}  // namespace foretoken::fuzz
