// What a tokenizer.json says, checked: the plain data between the JSON reader and the tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken::tokenizer_detail {

struct SplitRule {
  std::string pattern;
  bool is_regex = true;  // else a literal string
  std::string item;      // where in the file it stands, for errors
};

struct AddedToken {
  std::string content;  // well-formed UTF-8, not empty
  int32_t id = 0;
  bool lstrip = false;      // takes the white space before it
  bool rstrip = false;      // takes the white space after it
  bool normalized = false;  // looked for after normalization
  bool special = false;
};

struct TokenEntry {
  std::string text;  // as in the file
  bool defined = false;
};

struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
};

struct TokenizerSpec {
  std::string origin;             // names the file in errors
  std::vector<TokenEntry> vocab;  // by id, of model.vocab only
  std::vector<Merge> merges;      // best first
  std::vector<AddedToken> added;  // ids and contents are unique
  std::vector<SplitRule> splits;  // applied in order, each to the pieces of the one before
  std::vector<int32_t> byte_ids;  // [256], id of each single byte
  bool normalize_nfc = false;
  bool ignore_merges = false;  // a word that is a token as a whole is not built from merges
};

/// Reads the text of a tokenizer.json. Throws FormatError or Unsupported, each naming `origin` and the item.
[[nodiscard]] TokenizerSpec parse_tokenizer_spec(std::string_view json_text, const std::string& origin);

}  // namespace foretoken::tokenizer_detail
