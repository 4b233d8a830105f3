#include "models/tokenizer_spec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "models/tokenizer_text.h"

namespace foretoken::tokenizer_detail {
namespace {

using nlohmann::json;

constexpr int kMaxNesting = 32;
constexpr size_t kMaxSplits = 16;
// An id may leave gaps, but not so far that the table by id would be mostly empty.
constexpr size_t kIdSlack = 65536;

// The rule that ByteLevel applies by itself when use_regex is true, from GPT-2.
constexpr std::string_view kByteLevelPattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", shortened(text)); }

std::string shown(const json& value) { return value.is_structured() ? value.type_name() : shortened(value.dump()); }

/// The reader of one file: every accessor takes the item's path in the file and names it when it is not what it must be.
class SpecReader {
 public:
  explicit SpecReader(const std::string& origin) { spec_.origin = origin; }
  TokenizerSpec read(std::string_view json_text);

 private:
  [[noreturn]] void malformed(const std::string& item, const std::string& what, const std::string& expected = {},
                              const std::string& got = {}) const {
    throw Error(ErrorCode::kFormatError,
                ErrorDetail{.what = what, .where = spec_.origin + ": " + item, .expected = expected, .got = got});
  }
  [[noreturn]] void unsupported(const std::string& item, const std::string& what, const std::string& expected,
                                const std::string& got) const {
    throw Error(ErrorCode::kUnsupported,
                ErrorDetail{.what = what, .where = spec_.origin + ": " + item, .expected = expected, .got = got});
  }

  const json& member(const json& object, const std::string& parent, const char* key) const;
  const json& array(const json& object, const std::string& parent, const char* key) const;
  std::string string(const json& object, const std::string& parent, const char* key) const;
  bool boolean(const json& object, const std::string& parent, const char* key) const;
  bool boolean_or(const json& object, const std::string& parent, const char* key, bool otherwise) const;
  int32_t token_id(const json& value, const std::string& item, size_t limit) const;
  static bool is_null(const json& object, const char* key) { return !object.contains(key) || object[key].is_null(); }

  json parse_document(std::string_view json_text) const;
  void read_normalizer(const json& normalizer, const std::string& item);
  void read_pre_tokenizer(const json& pre_tokenizer, const std::string& item);
  void read_split(const json& split, const std::string& item);
  void read_model(const json& model, size_t num_added);
  void read_vocab(const json& vocab, size_t limit);
  void read_merges(const json& merges);
  std::pair<std::string, std::string> merge_parts(const json& merge, const std::string& item) const;
  void read_added_tokens(const json& tokens);
  AddedToken read_added_token(const json& token, const std::string& item, size_t limit) const;
  void check_decoding(const json& root) const;

  TokenizerSpec spec_;
  std::unordered_map<std::string_view, int32_t> ids_;  // of model.vocab, by the texts in spec_.vocab
  bool byte_level_ = false;                            // the pre-tokenizer ends in ByteLevel
};

const json& SpecReader::member(const json& object, const std::string& parent, const char* key) const {
  if (!object.is_object()) malformed(parent, "not an object", "object", shown(object));
  const auto found = object.find(key);
  if (found == object.end()) malformed(parent, std::string("has no key ") + in_quotes(key));
  return *found;
}

const json& SpecReader::array(const json& object, const std::string& parent, const char* key) const {
  const json& value = member(object, parent, key);
  if (!value.is_array()) malformed(parent + "." + key, "wrong type", "array", shown(value));
  return value;
}

std::string SpecReader::string(const json& object, const std::string& parent, const char* key) const {
  const json& value = member(object, parent, key);
  if (!value.is_string()) malformed(parent + "." + key, "wrong type", "string", shown(value));
  return value.get<std::string>();
}

bool SpecReader::boolean(const json& object, const std::string& parent, const char* key) const {
  const json& value = member(object, parent, key);
  if (!value.is_boolean()) malformed(parent + "." + key, "wrong type", "true or false", shown(value));
  return value.get<bool>();
}

bool SpecReader::boolean_or(const json& object, const std::string& parent, const char* key, bool otherwise) const {
  return is_null(object, key) ? otherwise : boolean(object, parent, key);
}

int32_t SpecReader::token_id(const json& value, const std::string& item, size_t limit) const {
  const bool fits = value.is_number_integer() && (value.is_number_unsigned() || value.get<int64_t>() >= 0);
  if (!fits || value.get<uint64_t>() >= limit) {
    malformed(item, "token id out of range", "an integer in [0, " + std::to_string(limit) + ")", shown(value));
  }
  return static_cast<int32_t>(value.get<uint64_t>());
}

json SpecReader::parse_document(std::string_view json_text) const {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json_text.size(); ++i) {
    const char c = json_text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxNesting) {
        malformed("byte " + std::to_string(i), "JSON nested too deeply", "at most " + std::to_string(kMaxNesting) + " levels");
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  try {
    return json::parse(json_text);
  } catch (const json::parse_error& error) {
    malformed("byte " + std::to_string(error.byte), std::string("not JSON: ") + error.what());
  }
}

void SpecReader::read_normalizer(const json& normalizer, const std::string& item) {
  if (normalizer.is_null()) return;
  const std::string type = string(normalizer, item, "type");
  if (type == "Sequence") {
    const json& steps = array(normalizer, item, "normalizers");
    for (size_t i = 0; i < steps.size(); ++i) read_normalizer(steps[i], item + ".normalizers[" + std::to_string(i) + "]");
  } else if (type == "NFC") {
    spec_.normalize_nfc = true;
  } else {
    unsupported(item, "this normalizer is not implemented", "NFC, Sequence or null", in_quotes(type));
  }
}

void SpecReader::read_split(const json& split, const std::string& item) {
  const json& pattern = member(split, item, "pattern");
  SplitRule rule;
  rule.item = spec_.origin + ": " + item + ".pattern";
  rule.is_regex = pattern.is_object() && pattern.contains("Regex");
  rule.pattern = string(pattern, item + ".pattern", rule.is_regex ? "Regex" : "String");
  if (rule.pattern.empty()) malformed(item + ".pattern", "the pattern is empty");
  const std::string behavior = string(split, item, "behavior");
  if (behavior != "Isolated")
    unsupported(item + ".behavior", "this behavior is not implemented", "Isolated", in_quotes(behavior));
  if (boolean_or(split, item, "invert", false)) {
    unsupported(item + ".invert", "inverted splits are not implemented", "false", "true");
  }
  spec_.splits.push_back(std::move(rule));
}

void SpecReader::read_pre_tokenizer(const json& pre_tokenizer, const std::string& item) {
  if (pre_tokenizer.is_null()) unsupported(item, "only byte-level tokenizers are implemented", "ByteLevel", "null");
  const std::string type = string(pre_tokenizer, item, "type");
  if (byte_level_) unsupported(item, "a step after ByteLevel is not implemented", "ByteLevel as the last step", in_quotes(type));
  if (spec_.splits.size() >= kMaxSplits) {
    unsupported(item, "too many split steps", "at most " + std::to_string(kMaxSplits), in_quotes(type));
  }
  if (type == "Sequence") {
    const json& steps = array(pre_tokenizer, item, "pretokenizers");
    for (size_t i = 0; i < steps.size(); ++i) {
      read_pre_tokenizer(steps[i], item + ".pretokenizers[" + std::to_string(i) + "]");
    }
  } else if (type == "Split") {
    read_split(pre_tokenizer, item);
  } else if (type == "ByteLevel") {
    if (boolean(pre_tokenizer, item, "add_prefix_space")) {
      unsupported(item + ".add_prefix_space", "adding a space before the text is not implemented", "false", "true");
    }
    if (boolean_or(pre_tokenizer, item, "use_regex", true)) {
      spec_.splits.push_back({std::string(kByteLevelPattern), true, spec_.origin + ": " + item});
    }
    byte_level_ = true;
  } else {
    unsupported(item, "this pre-tokenizer is not implemented", "Split, ByteLevel or Sequence", in_quotes(type));
  }
}

void SpecReader::read_vocab(const json& vocab, size_t limit) {
  if (!vocab.is_object()) malformed("model.vocab", "wrong type", "object", shown(vocab));
  for (const auto& [text, value] : vocab.items()) {
    const std::string item = "model.vocab[" + in_quotes(text) + "]";
    const int32_t id = token_id(value, item, limit);
    if (static_cast<size_t>(id) >= spec_.vocab.size()) spec_.vocab.resize(static_cast<size_t>(id) + 1);
    TokenEntry& entry = spec_.vocab[id];
    if (entry.defined) malformed(item, "duplicate id " + std::to_string(id), "", "the id of token " + in_quotes(entry.text));
    if (text.empty()) malformed(item, "the token is empty");
    entry = {text, true};
  }
  ids_.reserve(vocab.size());
  for (size_t id = 0; id < spec_.vocab.size(); ++id) {
    if (spec_.vocab[id].defined) ids_.emplace(spec_.vocab[id].text, static_cast<int32_t>(id));
  }
  spec_.byte_ids.resize(256);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = byte_level_character(static_cast<uint8_t>(byte));
    const auto found = ids_.find(character);
    if (found == ids_.end()) {
      malformed("model.vocab", "no token for byte " + std::to_string(byte), "a token " + in_quotes(character));
    }
    spec_.byte_ids[byte] = found->second;
  }
}

std::pair<std::string, std::string> SpecReader::merge_parts(const json& merge, const std::string& item) const {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  malformed(item, "not a merge", R"("a b" or ["a", "b"])", shown(merge));
}

void SpecReader::read_merges(const json& merges) {
  spec_.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string item = "model.merges[" + std::to_string(i) + "]";
    const auto [left, right] = merge_parts(merges[i], item);
    const auto id_of = [&](const std::string& token) {
      const auto found = ids_.find(token);
      if (found == ids_.end()) malformed(item, "the merge names no token of the vocabulary", "", in_quotes(token));
      return found->second;
    };
    spec_.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
}

void SpecReader::read_model(const json& model, size_t num_added) {
  const std::string type = string(model, "model", "type");
  if (type != "BPE") unsupported("model.type", "this tokenizer model is not implemented", "\"BPE\"", in_quotes(type));
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!is_null(model, affix) && !string(model, "model", affix).empty()) {
      unsupported(std::string("model.") + affix, "affixes are not implemented", "\"\" or null", shown(model[affix]));
    }
  }
  if (!is_null(model, "dropout")) {
    const json& dropout = model["dropout"];
    if (!dropout.is_number()) malformed("model.dropout", "wrong type", "number or null", shown(dropout));
    if (dropout.get<double>() != 0.0) unsupported("model.dropout", "dropout is not implemented", "0 or null", shown(dropout));
  }
  spec_.ignore_merges = boolean_or(model, "model", "ignore_merges", false);
  const json& vocab = member(model, "model", "vocab");
  read_vocab(vocab, 2 * (vocab.size() + num_added) + kIdSlack);
  read_merges(array(model, "model", "merges"));
}

AddedToken SpecReader::read_added_token(const json& token, const std::string& item, size_t limit) const {
  AddedToken added;
  added.content = string(token, item, "content");
  if (added.content.empty()) malformed(item + ".content", "the token is empty");
  added.id = token_id(member(token, item, "id"), item + ".id", limit);
  added.lstrip = boolean(token, item, "lstrip");
  added.rstrip = boolean(token, item, "rstrip");
  added.normalized = boolean(token, item, "normalized");
  added.special = boolean(token, item, "special");
  if (boolean(token, item, "single_word")) {
    unsupported(item + ".single_word", "tokens that match whole words only are not implemented", "false", "true");
  }
  if (static_cast<size_t>(added.id) < spec_.vocab.size()) {
    const TokenEntry& entry = spec_.vocab[added.id];
    if (entry.defined && entry.text != added.content) {
      malformed(item + ".id", "duplicate id " + std::to_string(added.id), "", "the id of token " + in_quotes(entry.text));
    }
  }
  if (const auto found = ids_.find(added.content); found != ids_.end() && found->second != added.id) {
    malformed(item + ".content", "token " + in_quotes(added.content) + " has two ids", "id " + std::to_string(found->second),
              "id " + std::to_string(added.id));
  }
  return added;
}

void SpecReader::read_added_tokens(const json& tokens) {
  const size_t limit = 2 * (ids_.size() + tokens.size()) + kIdSlack;
  std::unordered_set<int32_t> ids;
  std::unordered_set<std::string> contents;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string item = "added_tokens[" + std::to_string(i) + "]";
    AddedToken added = read_added_token(tokens[i], item, limit);
    if (!ids.insert(added.id).second) malformed(item + ".id", "duplicate id " + std::to_string(added.id));
    if (!contents.insert(added.content).second) malformed(item + ".content", "duplicate token " + in_quotes(added.content));
    spec_.added.push_back(std::move(added));
  }
}

/// A post-processor other than ByteLevel adds tokens; another decoder gives other text.
void SpecReader::check_decoding(const json& root) const {
  for (const char* key : {"post_processor", "decoder"}) {
    if (is_null(root, key)) continue;
    const std::string type = string(root[key], key, "type");
    if (type != "ByteLevel")
      unsupported(key, std::string("this ") + key + " is not implemented", "ByteLevel or null", in_quotes(type));
  }
}

TokenizerSpec SpecReader::read(std::string_view json_text) {
  const json root = parse_document(json_text);
  const json& model = member(root, "top level", "model");
  if (!is_null(root, "normalizer")) read_normalizer(root["normalizer"], "normalizer");
  read_pre_tokenizer(member(root, "top level", "pre_tokenizer"), "pre_tokenizer");
  if (!byte_level_) unsupported("pre_tokenizer", "only byte-level tokenizers are implemented", "a ByteLevel step", "none");
  check_decoding(root);
  const bool has_added = !is_null(root, "added_tokens");
  read_model(model, has_added ? array(root, "top level", "added_tokens").size() : 0);
  if (has_added) read_added_tokens(root["added_tokens"]);
  return std::move(spec_);
}

}  // namespace

TokenizerSpec parse_tokenizer_spec(std::string_view json_text, const std::string& origin) {
  return SpecReader(origin).read(json_text);
}

}  // namespace foretoken::tokenizer_detail
