// A reduced vocabulary for drafts: the tokens that a draft can be. What is not in it is never drafted, so acceptance falls a
// little; the text never changes, because the target picks among all tokens.
//
// As a file it is one JSON object:
//   {"format": "foretoken-draft-vocab", "version": 1, "vocab_size": 248320, "tokenizer": "<fingerprint>", "token_ids": [0, 1, 5]}
// with rising ids; row i of the reduced LM head is token token_ids[i].
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken {

struct DraftVocab {
  int64_t vocab_size = 0;          // of the model that it is for
  std::string tokenizer{};         // fingerprint of its tokenizer
  std::vector<int32_t> token_ids;  // rising, at least one, each below vocab_size
};

/// Tells tokenizers apart: a hash of a tokenizer.json. Empty for a folder that has none. Throws InvalidArgument when the file
/// cannot be read.
[[nodiscard]] std::string tokenizer_fingerprint(const std::filesystem::path& directory);

/// The `size` tokens with the greatest of `counts` [vocab_size], equal ones by rising id, besides all of `always`, rising. A size
/// beyond the vocabulary is the whole vocabulary. Throws InvalidArgument for a size below 1 and ids outside the vocabulary.
[[nodiscard]] std::vector<int32_t> most_frequent_tokens(std::span<const int64_t> counts, int64_t size,
                                                        std::span<const int32_t> always);

/// The text of a file; `origin` names it in errors. parse throws FormatError for what is not such a file: other JSON, another
/// version, ids that do not rise or lie outside the vocabulary.
[[nodiscard]] std::string to_json(const DraftVocab& vocab);
[[nodiscard]] DraftVocab parse_draft_vocab(std::string_view text, const std::string& origin);

/// What an option says: a number N, the first N ids (those that a byte-pair vocabulary learned first), or the name of a file.
/// `directory` is the folder of the model, empty for a model without one. Throws InvalidArgument for N outside 1 .. vocab_size,
/// a file that cannot be read and one that was made for another vocabulary or tokenizer, with both; and what parse throws.
[[nodiscard]] std::vector<int32_t> read_draft_vocab(const std::string& option, int64_t vocab_size,
                                                    const std::filesystem::path& directory);

}  // namespace foretoken
