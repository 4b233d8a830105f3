#include "models/tokenizer_split.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/error.h"
#include "models/tokenizer_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace foretoken::tokenizer_detail {
namespace {

// White_Space and its complement as the inside of a character class.
constexpr std::string_view kSpaceRanges =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNonSpaceRanges =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

// Steps that the matcher may take: a fixed part, plus one for each byte in proportion, since white space is scanned back and
// forth.
constexpr uint64_t kBaseMatchLimit = 10'000'000;
constexpr uint64_t kMatchLimitPerByte = 32;
constexpr size_t kJitStackStart = size_t{32} << 10U;
constexpr size_t kJitStackMax = size_t{16} << 20U;
constexpr uint32_t kMaxParenthesisDepth = 100;

template <auto Free>
struct FreeWith {
  template <class T>
  void operator()(T* pointer) const noexcept {
    Free(pointer);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, FreeWith<pcre2_compile_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, FreeWith<pcre2_jit_stack_free>>;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

template <class Pointer>
Pointer check_allocated(Pointer pointer) {
  if (!pointer) throw Error(ErrorCode::kOutOfMemory, "tokenizer: no memory for the regular expression");
  return pointer;
}

}  // namespace

std::string translate_pattern(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\' && i + 1 < pattern.size()) {
      ++i;
      const std::string_view ranges = next == 's' ? kSpaceRanges : next == 'S' ? kNonSpaceRanges : std::string_view{};
      if (ranges.empty()) {
        out += {c, next};
      } else {
        out += in_class ? std::string(ranges) : "[" + std::string(ranges) + "]";
      }
      continue;
    }
    if (in_class && c == '[' && next == ':') {  // a POSIX class name
      const size_t end = pattern.find(":]", i + 2);
      if (end != std::string_view::npos) {
        out += pattern.substr(i, end + 2 - i);
        i = end + 1;
        continue;
      }
    }
    if (in_class && (c == '[' || (c == '&' && next == '&'))) {
      throw Error(ErrorCode::kUnsupported, {.what = "nested character classes and && are not implemented",
                                            .expected = "a plain character class",
                                            .got = "\"" + shortened(pattern) + "\" at offset " + std::to_string(i)});
    }
    if (in_class && c == ']') in_class = false;
    out += c;
    if (!in_class && c == '[') {
      in_class = true;
      if (next == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];  // a bracket that comes first is a member
    }
  }
  return out;
}

Splitter::Splitter(const SplitRule& rule) : item_(rule.item) {
  const CompileContext context = check_allocated(CompileContext(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxParenthesisDepth);
  const std::string pattern =
      rule.is_regex ? with_error_context(rule.item, [&] { return translate_pattern(rule.pattern); }) : rule.pattern;
  // MULTILINE: in Oniguruma's default syntax ^ and $ are always ends of a line.
  const uint32_t syntax = rule.is_regex ? PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C : PCRE2_LITERAL;
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | syntax, &error,
                                   &offset, context.get());
  if (code == nullptr) {
    throw Error(ErrorCode::kFormatError, {.what = "the pattern does not compile: " + pcre2_message(error),
                                          .where = rule.item,
                                          .got = "\"" + shortened(pattern) + "\", error at offset " + std::to_string(offset)});
  }
  code_ = std::shared_ptr<const void>(code, [code](const void*) { pcre2_code_free(code); });
  // Where the machine forbids or lacks the JIT, pcre2_match interprets the same pattern.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

void Splitter::split(std::string_view text, const std::function<void(std::string_view)>& emit) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const MatchContext context = check_allocated(MatchContext(pcre2_match_context_create(nullptr)));
  const JitStack stack = check_allocated(JitStack(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)));
  const MatchData match = check_allocated(MatchData(pcre2_match_data_create_from_pattern(code, nullptr)));
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  const uint64_t limit = kBaseMatchLimit + kMatchLimitPerByte * text.size();
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));

  size_t piece_begin = 0;
  for (size_t search = 0; search < text.size();) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), search, PCRE2_NO_UTF_CHECK,
                                  match.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
    if (found < 0 || span[0] < piece_begin || span[1] < span[0]) {
      throw Error(ErrorCode::kInvalidArgument,
                  {.what = "the split pattern failed on the text: " + (found < 0 ? pcre2_message(found) : "it matches backwards"),
                   .where = item_,
                   .got = "a text of " + std::to_string(text.size()) + " bytes, at offset " + std::to_string(search)});
    }
    if (span[0] > piece_begin) emit(text.substr(piece_begin, span[0] - piece_begin));
    if (span[1] > span[0]) emit(text.substr(span[0], span[1] - span[0]));
    piece_begin = span[1];
    search = span[1];
    if (span[1] == span[0] && search < text.size()) search += utf8_step(text, search).length;
  }
  if (piece_begin < text.size()) emit(text.substr(piece_begin));
}

}  // namespace foretoken::tokenizer_detail
