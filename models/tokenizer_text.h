// UTF-8, the byte-level alphabet and NFC, as the tokenizer needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foretoken::tokenizer_detail {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

enum class Utf8Status : uint8_t { kValid, kInvalid, kIncomplete };

struct Utf8Step {
  Utf8Status status = Utf8Status::kValid;
  size_t length = 1;  // bytes of the sequence, or of the maximal ill-formed or incomplete part; at least 1
};

/// Examines the sequence that starts at `position` < text.size(). kIncomplete: the text ends inside a so far well-formed
/// sequence.
[[nodiscard]] Utf8Step utf8_step(std::string_view text, size_t position) noexcept;

/// Code point of the well-formed sequence at `position`.
[[nodiscard]] char32_t utf8_code_point(std::string_view text, size_t position) noexcept;

/// Appends `code_point` to `text` as UTF-8.
void append_utf8(std::string& text, char32_t code_point);

/// Appends `bytes` to `text` with every maximal ill-formed part replaced by U+FFFD; returns how many bytes of an incomplete
/// sequence at the end were left out.
[[nodiscard]] size_t append_well_formed(std::string& text, std::string_view bytes);

[[nodiscard]] bool is_well_formed(std::string_view text) noexcept;

/// The beginning of `text`, for error messages: texts of a hostile file can be long.
[[nodiscard]] std::string shortened(std::string_view text);

/// Unicode White_Space.
[[nodiscard]] bool is_white_space(char32_t code_point) noexcept;

/// Bytes of leading and of trailing white space of a well-formed text.
[[nodiscard]] size_t leading_white_space(std::string_view text) noexcept;
[[nodiscard]] size_t trailing_white_space(std::string_view text) noexcept;

/// NFC of well-formed `text`, in time n log n; nothing when a quick look shows that the text is NFC already.
[[nodiscard]] std::optional<std::string> normalize_nfc(std::string_view text);

/// The character that stands for `byte` in byte-level vocabularies: printable Latin-1 for itself, the rest from U+0100 on.
[[nodiscard]] std::string byte_level_character(uint8_t byte);

/// Bytes that a token written in the byte-level alphabet stands for, or nothing when a character is not in the alphabet.
[[nodiscard]] std::optional<std::string> byte_level_bytes(std::string_view token);

}  // namespace foretoken::tokenizer_detail
