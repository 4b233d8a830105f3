#include "models/tokenizer_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"

namespace foretoken::tokenizer_detail {
namespace {

struct LeadByte {
  size_t num_continuations = 0;
  uint8_t second_low = 0x80;  // the second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF
  uint8_t second_high = 0xBF;
};

std::optional<LeadByte> classify_lead(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return LeadByte{1};
  if (byte == 0xE0) return LeadByte{2, 0xA0};
  if (byte == 0xED) return LeadByte{2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return LeadByte{2};
  if (byte == 0xF0) return LeadByte{3, 0x90};
  if (byte >= 0xF1 && byte <= 0xF3) return LeadByte{3};
  if (byte == 0xF4) return LeadByte{3, 0x80, 0x8F};
  return std::nullopt;
}

/// Below U+0300 every character is NFC by itself and nothing composes.
bool is_nfc_at_a_glance(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<uint8_t>(c) >= 0xCC; });
}

struct Character {
  utf8proc_int32_t code_point = 0;
  int combining_class = 0;
  size_t position = 0;  // keeps marks of one class in their order
};

// The library's flags are made to be or-ed, beyond the named values of its enum.
constexpr int kCompose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
utf8proc_option_t compose_option() { return static_cast<utf8proc_option_t>(kCompose); }  // NOLINT(*EnumCastOutOfRange)

/// Canonical decomposition, with each run of combining marks in canonical order. The library's own ordering is a bubble sort,
/// which takes quadratic time on a long run of marks.
std::vector<utf8proc_int32_t> decompose(std::string_view text) {
  std::vector<Character> characters;
  characters.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts{};
  for (size_t i = 0; i < text.size(); i += utf8_step(text, i).length) {
    const auto code_point = static_cast<utf8proc_int32_t>(utf8_code_point(text, i));
    int boundary_class = 0;
    const auto count = utf8proc_decompose_char(code_point, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()),
                                               compose_option(), &boundary_class);
    if (count < 0 || static_cast<size_t>(count) > parts.size()) {
      throw Error(ErrorCode::kInternalError, std::string("NFC: ") + utf8proc_errmsg(std::min<utf8proc_ssize_t>(count, -1)));
    }
    for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
      characters.push_back({parts[k], utf8proc_get_property(parts[k])->combining_class, characters.size()});
    }
  }
  for (auto begin = characters.begin(); begin != characters.end();) {
    begin = std::find_if(begin, characters.end(), [](const Character& c) { return c.combining_class != 0; });
    const auto end = std::find_if(begin, characters.end(), [](const Character& c) { return c.combining_class == 0; });
    std::sort(begin, end, [](const Character& a, const Character& b) {
      return a.combining_class != b.combining_class ? a.combining_class < b.combining_class : a.position < b.position;
    });
    begin = end;
  }
  std::vector<utf8proc_int32_t> code_points(characters.size());
  std::ranges::transform(characters, code_points.begin(), &Character::code_point);
  return code_points;
}

}  // namespace

Utf8Step utf8_step(std::string_view text, size_t position) noexcept {
  const auto first = static_cast<uint8_t>(text[position]);
  if (first < 0x80) return {Utf8Status::kValid, 1};
  const std::optional<LeadByte> lead = classify_lead(first);
  if (!lead) return {Utf8Status::kInvalid, 1};
  for (size_t i = 1; i <= lead->num_continuations; ++i) {
    if (position + i >= text.size()) return {Utf8Status::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(text[position + i]);
    const uint8_t low = i == 1 ? lead->second_low : uint8_t{0x80};
    const uint8_t high = i == 1 ? lead->second_high : uint8_t{0xBF};
    if (byte < low || byte > high) return {Utf8Status::kInvalid, i};
  }
  return {Utf8Status::kValid, lead->num_continuations + 1};
}

char32_t utf8_code_point(std::string_view text, size_t position) noexcept {
  const auto first = static_cast<uint8_t>(text[position]);
  if (first < 0x80) return first;
  const size_t num_continuations = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  char32_t code_point = first & (0x3FU >> num_continuations);
  for (size_t i = 1; i <= num_continuations; ++i) {
    code_point = (code_point << 6U) | (static_cast<uint8_t>(text[position + i]) & 0x3FU);
  }
  return code_point;
}

void append_utf8(std::string& text, char32_t code_point) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  text.append(bytes.begin(), bytes.begin() + length);
}

size_t append_well_formed(std::string& text, std::string_view bytes) {
  size_t copied = 0;  // bytes[copied, i) is well-formed and not yet appended
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = utf8_step(bytes, i);
    if (step.status != Utf8Status::kValid) {
      text += bytes.substr(copied, i - copied);
      if (step.status == Utf8Status::kIncomplete) return bytes.size() - i;
      text += kReplacementCharacter;
      copied = i + step.length;
    }
    i += step.length;
  }
  text += bytes.substr(copied);
  return 0;
}

bool is_well_formed(std::string_view text) noexcept {
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text, i);
    if (step.status != Utf8Status::kValid) return false;
    i += step.length;
  }
  return true;
}

std::string shortened(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  if (text.size() <= kMaxShown) return std::string(text);
  size_t end = kMaxShown;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

bool is_white_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t leading_white_space(std::string_view text) noexcept {
  size_t length = 0;
  while (length < text.size() && is_white_space(utf8_code_point(text, length))) length += utf8_step(text, length).length;
  return length;
}

size_t trailing_white_space(std::string_view text) noexcept {
  size_t start = text.size();
  while (start > 0) {
    size_t previous = start - 1;
    while (previous > 0 && (static_cast<uint8_t>(text[previous]) & 0xC0U) == 0x80U) --previous;
    if (!is_white_space(utf8_code_point(text, previous))) break;
    start = previous;
  }
  return text.size() - start;
}

std::optional<std::string> normalize_nfc(std::string_view text) {
  if (is_nfc_at_a_glance(text)) return std::nullopt;
  std::vector<utf8proc_int32_t> code_points = decompose(text);
  const auto length =
      utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), compose_option());
  if (length < 0) throw Error(ErrorCode::kInternalError, std::string("NFC: ") + utf8proc_errmsg(length));
  code_points.resize(static_cast<size_t>(length));
  std::string normalized;
  normalized.reserve(text.size());
  for (const utf8proc_int32_t code_point : code_points) append_utf8(normalized, static_cast<char32_t>(code_point));
  return normalized;
}

namespace {

bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

std::array<char32_t, 256> make_byte_level_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) alphabet[byte] = stands_for_itself(byte) ? byte : next++;
  return alphabet;
}

/// Byte of each code point below U+0144, or -1.
std::array<int16_t, 0x144> make_byte_level_inverse() {
  std::array<int16_t, 0x144> inverse{};
  inverse.fill(-1);
  const auto alphabet = make_byte_level_alphabet();
  for (size_t byte = 0; byte < alphabet.size(); ++byte) inverse[alphabet[byte]] = static_cast<int16_t>(byte);
  return inverse;
}

}  // namespace

std::string byte_level_character(uint8_t byte) {
  static const auto kAlphabet = make_byte_level_alphabet();
  std::string text;
  append_utf8(text, kAlphabet[byte]);
  return text;
}

std::optional<std::string> byte_level_bytes(std::string_view token) {
  static const auto kInverse = make_byte_level_inverse();
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t i = 0; i < token.size(); i += utf8_step(token, i).length) {
    const char32_t code_point = utf8_code_point(token, i);
    if (code_point >= kInverse.size() || kInverse[code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kInverse[code_point]));
  }
  return bytes;
}

}  // namespace foretoken::tokenizer_detail
