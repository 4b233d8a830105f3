#include "models/draft_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "models/checkpoint_json.h"

namespace foretoken {
namespace {

constexpr std::string_view kFormat = "foretoken-draft-vocab";
constexpr int64_t kVersion = 1;

[[noreturn]] void fail(ErrorCode code, const std::string& what, const std::string& where, const std::string& expected,
                       const std::string& got) {
  throw Error(code, {.what = what, .where = where, .expected = expected, .got = got});
}

/// A number when the whole option is one.
std::optional<int64_t> to_number(const std::string& option) {
  const bool is_number = !option.empty() && option.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(option.data(), option.data() + option.size(), value);
  return error == std::errc() ? value : INT64_MAX;
}

/// FNV-1a.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3U;
  return hash;
}

void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size, const std::string& origin) {
  if (ids.empty()) fail(ErrorCode::kFormatError, "a draft vocabulary without tokens", origin, "at least one id", "none");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      fail(ErrorCode::kFormatError, "token_ids[" + std::to_string(i) + "] is no token", origin,
           "0 .. " + std::to_string(vocab_size - 1), std::to_string(ids[i]));
    }
    if (i > 0 && ids[i] <= ids[i - 1]) {
      fail(ErrorCode::kFormatError, "token_ids[" + std::to_string(i) + "] does not rise", origin,
           "more than " + std::to_string(ids[i - 1]), std::to_string(ids[i]));
    }
  }
}

/// The member `key`, of the type that `is_type` says.
template <class IsType>
const nlohmann::json& member(const nlohmann::json& object, const char* key, const IsType& is_type, const std::string& expected,
                             const std::string& origin) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorCode::kFormatError, "no \"" + std::string(key) + "\"", origin, expected, "nothing");
  if (!is_type(*found)) fail(ErrorCode::kFormatError, "\"" + std::string(key) + "\"", origin, expected, found->type_name());
  return *found;
}

}  // namespace

std::string tokenizer_fingerprint(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "tokenizer.json";
  if (directory.empty() || !std::filesystem::exists(file)) return {};
  return fmt::format("{:016x}", hash_of(read_text_file(file)));
}

std::vector<int32_t> most_frequent_tokens(std::span<const int64_t> counts, int64_t size, std::span<const int32_t> always) {
  const auto vocab_size = static_cast<int64_t>(counts.size());
  if (size < 1) fail(ErrorCode::kInvalidArgument, "size of a draft vocabulary", {}, "at least 1", std::to_string(size));
  std::vector<int32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&counts](int32_t id) { return counts[static_cast<size_t>(id)]; });
  std::vector<int32_t> ids(order.begin(), order.begin() + std::min(size, vocab_size));
  for (const int32_t id : always) {
    if (id < 0 || id >= vocab_size) {
      fail(ErrorCode::kInvalidArgument, "a token outside the vocabulary", {}, "0 .. " + std::to_string(vocab_size - 1),
           std::to_string(id));
    }
    ids.push_back(id);
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

std::string to_json(const DraftVocab& vocab) {
  const nlohmann::ordered_json object{{"format", kFormat},
                                      {"version", kVersion},
                                      {"vocab_size", vocab.vocab_size},
                                      {"tokenizer", vocab.tokenizer},
                                      {"token_ids", vocab.token_ids}};
  return object.dump() + "\n";
}

DraftVocab parse_draft_vocab(std::string_view text, const std::string& origin) {
  const nlohmann::json object = parse_json(text, origin);
  if (!object.is_object()) fail(ErrorCode::kFormatError, "not a draft vocabulary", origin, "a JSON object", object.type_name());
  const auto is_integer = [](const nlohmann::json& value) { return value.is_number_integer(); };
  const auto is_string = [](const nlohmann::json& value) { return value.is_string(); };
  const auto is_ids = [&](const nlohmann::json& value) { return value.is_array() && std::ranges::all_of(value, is_integer); };
  const auto format = member(object, "format", is_string, std::string(kFormat), origin).get<std::string>();
  if (format != kFormat) fail(ErrorCode::kFormatError, "not a draft vocabulary", origin, std::string(kFormat), format);
  const auto version = member(object, "version", is_integer, "an integer", origin).get<int64_t>();
  if (version != kVersion) {
    fail(ErrorCode::kFormatError, "version of a draft vocabulary", origin, std::to_string(kVersion), std::to_string(version));
  }
  DraftVocab vocab{.vocab_size = member(object, "vocab_size", is_integer, "an integer", origin).get<int64_t>(),
                   .tokenizer = member(object, "tokenizer", is_string, "a text", origin).get<std::string>(),
                   .token_ids = {}};
  if (vocab.vocab_size < 1 || vocab.vocab_size > INT32_MAX) {
    fail(ErrorCode::kFormatError, "vocab_size", origin, "1 .. " + std::to_string(INT32_MAX), std::to_string(vocab.vocab_size));
  }
  for (const nlohmann::json& id : member(object, "token_ids", is_ids, "a list of integers", origin)) {
    const auto value = id.get<int64_t>();  // what int32 does not hold is outside any vocabulary
    vocab.token_ids.push_back(static_cast<int32_t>(std::clamp<int64_t>(value, -1, INT32_MAX)));
  }
  check_ids(vocab.token_ids, vocab.vocab_size, origin);
  return vocab;
}

std::vector<int32_t> read_draft_vocab(const std::string& option, int64_t vocab_size, const std::filesystem::path& directory) {
  if (const auto size = to_number(option)) {
    if (*size < 1 || *size > vocab_size) {
      fail(ErrorCode::kInvalidArgument, "size of the draft vocabulary", {}, "1 .. " + std::to_string(vocab_size), option);
    }
    std::vector<int32_t> ids(static_cast<size_t>(*size));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
  DraftVocab vocab = parse_draft_vocab(read_text_file(option), option);
  if (vocab.vocab_size != vocab_size) {
    fail(ErrorCode::kInvalidArgument, "a draft vocabulary for another model", option,
         "for " + std::to_string(vocab_size) + " tokens", "for " + std::to_string(vocab.vocab_size));
  }
  const std::string tokenizer = tokenizer_fingerprint(directory);
  if (!tokenizer.empty() && vocab.tokenizer != tokenizer) {
    fail(ErrorCode::kInvalidArgument, "a draft vocabulary for another tokenizer", option, tokenizer, "'" + vocab.tokenizer + "'");
  }
  return std::move(vocab.token_ids);
}

}  // namespace foretoken
