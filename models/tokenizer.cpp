#include "models/tokenizer.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>

#include "core/error.h"
#include "models/tokenizer_bpe.h"
#include "models/tokenizer_spec.h"
#include "models/tokenizer_split.h"
#include "models/tokenizer_text.h"

namespace foretoken {

namespace fs = std::filesystem;
using namespace tokenizer_detail;

namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30U;
constexpr uintmax_t kMaxFileBytes = uintmax_t{1} << 29U;

/// Finds added tokens in a text: leftmost, and the longest among those that start at the same place.
class AddedTokenMatcher {
 public:
  void add(AddedToken token) {
    by_first_byte_[static_cast<uint8_t>(token.content.front())].push_back(std::move(token));
    empty_ = false;
  }
  /// To be called after the last add().
  void sort_longest_first() {
    for (auto& bucket : by_first_byte_) {
      std::ranges::sort(bucket, [](const AddedToken& a, const AddedToken& b) {
        return a.content.size() != b.content.size() ? a.content.size() > b.content.size() : a.id < b.id;
      });
    }
  }
  [[nodiscard]] bool empty() const noexcept { return empty_; }

  /// Calls `on_text` for each stretch between tokens and `on_token` for each token, in order. Stripping white space goes no
  /// further back than the token before.
  void split(std::string_view text, const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const {
    size_t text_begin = 0;
    for (size_t i = 0; i < text.size();) {
      const AddedToken* token = match(text.substr(i));
      if (token == nullptr) {
        ++i;
        continue;
      }
      const std::string_view before = text.substr(text_begin, i - text_begin);
      on_text(before.substr(0, before.size() - (token->lstrip ? trailing_white_space(before) : 0)));
      on_token(token->id);
      i += token->content.size();
      if (token->rstrip) i += leading_white_space(text.substr(i));
      text_begin = i;
    }
    on_text(text.substr(text_begin));
  }

 private:
  [[nodiscard]] const AddedToken* match(std::string_view text) const {
    for (const AddedToken& token : by_first_byte_[static_cast<uint8_t>(text.front())]) {
      if (text.starts_with(token.content)) return &token;
    }
    return nullptr;
  }

  std::array<std::vector<AddedToken>, 256> by_first_byte_;  // each longest first
  bool empty_ = true;
};

struct Token {
  std::string bytes;
  bool defined = false;
  bool special = false;
};

std::string read_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "cannot read the tokenizer", .where = path.string(), .got = error.message()});
  }
  if (size > kMaxFileBytes) {
    throw Error(ErrorCode::kFormatError, {.what = "file too large for a tokenizer.json",
                                          .where = path.string(),
                                          .expected = "at most " + std::to_string(kMaxFileBytes) + " bytes",
                                          .got = std::to_string(size)});
  }
  std::string text(static_cast<size_t>(size), '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (file.gcount() != static_cast<std::streamsize>(size)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "the file became shorter while it was read", .where = path.string()});
  }
  return text;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec spec);

  void encode_text(std::string_view text, SpecialTokens mode, std::vector<int32_t>& out) const;
  void encode_pieces(std::string_view text, size_t split_idx, std::vector<int32_t>& out) const;
  void encode_word(std::string_view word, std::vector<int32_t>& out) const;
  void append_token(int32_t id, bool skip_special_tokens, std::string& bytes) const;
  [[nodiscard]] const Token* find(int32_t id) const noexcept {
    if (id < 0 || static_cast<size_t>(id) >= tokens.size() || !tokens[id].defined) return nullptr;
    return &tokens[id];
  }

  std::vector<Token> tokens;           // by id
  StringMap<int32_t> ids;              // by the text in the file
  StringMap<int32_t> whole_words;      // by bytes, ordinary tokens only; filled when merges may be ignored
  AddedTokenMatcher raw_added;         // looked for in the text as given
  AddedTokenMatcher normalized_added;  // looked for after normalization
  std::vector<Splitter> splitters;
  BytePairEncoder bpe;
  bool nfc = false;
};

Tokenizer::Impl::Impl(TokenizerSpec spec) : bpe(spec.merges, std::move(spec.byte_ids)), nfc(spec.normalize_nfc) {
  for (const SplitRule& rule : spec.splits) splitters.emplace_back(rule);
  size_t num_tokens = spec.vocab.size();
  for (const AddedToken& added : spec.added) num_tokens = std::max(num_tokens, static_cast<size_t>(added.id) + 1);
  tokens.resize(num_tokens);
  ids.reserve(num_tokens);
  for (size_t id = 0; id < spec.vocab.size(); ++id) {
    TokenEntry& entry = spec.vocab[id];
    if (!entry.defined) continue;
    tokens[id] = {byte_level_bytes(entry.text).value_or(entry.text), true, false};
    ids.emplace(std::move(entry.text), static_cast<int32_t>(id));
  }
  for (AddedToken& added : spec.added) {
    tokens[added.id] = {added.content, true, added.special};
    ids.insert_or_assign(added.content, added.id);
  }
  if (spec.ignore_merges) {
    for (size_t id = 0; id < spec.vocab.size(); ++id) {
      if (tokens[id].defined) whole_words.emplace(tokens[id].bytes, static_cast<int32_t>(id));
    }
    for (const AddedToken& added : spec.added) whole_words.erase(added.content);
  }
  for (AddedToken& added : spec.added) {
    const bool normalized = added.normalized;
    if (normalized && nfc) added.content = normalize_nfc(added.content).value_or(added.content);
    (normalized ? normalized_added : raw_added).add(std::move(added));
  }
  raw_added.sort_longest_first();
  normalized_added.sort_longest_first();
}

void Tokenizer::Impl::encode_word(std::string_view word, std::vector<int32_t>& out) const {
  if (const auto found = whole_words.find(word); found != whole_words.end()) {
    out.push_back(found->second);
  } else {
    bpe.encode(word, out);
  }
}

void Tokenizer::Impl::encode_pieces(std::string_view text, size_t split_idx, std::vector<int32_t>& out) const {
  if (text.empty()) return;
  if (split_idx == splitters.size()) {
    encode_word(text, out);
    return;
  }
  splitters[split_idx].split(text, [&](std::string_view piece) { encode_pieces(piece, split_idx + 1, out); });
}

void Tokenizer::Impl::encode_text(std::string_view text, SpecialTokens mode, std::vector<int32_t>& out) const {
  const std::optional<std::string> normalized = nfc ? normalize_nfc(text) : std::nullopt;
  if (normalized) text = *normalized;
  if (mode == SpecialTokens::kPlainText || normalized_added.empty()) {
    encode_pieces(text, 0, out);
    return;
  }
  normalized_added.split(
      text, [&](std::string_view part) { encode_pieces(part, 0, out); }, [&](int32_t id) { out.push_back(id); });
}

void Tokenizer::Impl::append_token(int32_t id, bool skip_special_tokens, std::string& bytes) const {
  if (id < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {.what = "token id out of range", .where = "decode", .expected = "0 or more", .got = std::to_string(id)});
  }
  const Token* token = find(id);
  if (token == nullptr) {
    bytes += kReplacementCharacter;
  } else if (!token->special || !skip_special_tokens) {
    bytes += token->bytes;
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const fs::path& directory_or_json) {
  std::error_code error;
  const fs::path path = fs::is_directory(directory_or_json, error) ? directory_or_json / "tokenizer.json" : directory_or_json;
  return parse(read_file(path), path.string());
}

Tokenizer Tokenizer::parse(std::string_view json_text, const std::string& origin) {
  return Tokenizer(std::make_unique<const Impl>(parse_tokenizer_spec(json_text, origin)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens mode) const {
  if (text.size() >= kMaxTextBytes) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "text too long",
                                              .where = "encode",
                                              .expected = "under " + std::to_string(kMaxTextBytes) + " bytes",
                                              .got = std::to_string(text.size())});
  }
  std::string replaced;
  if (!is_well_formed(text)) {
    if (append_well_formed(replaced, text) > 0) replaced += kReplacementCharacter;
    text = replaced;
  }
  std::vector<int32_t> ids;
  if (mode == SpecialTokens::kPlainText) {
    impl_->encode_text(text, mode, ids);
  } else {
    impl_->raw_added.split(
        text, [&](std::string_view part) { impl_->encode_text(part, mode, ids); }, [&](int32_t id) { ids.push_back(id); });
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) impl_->append_token(id, skip_special_tokens, bytes);
  std::string text;
  text.reserve(bytes.size());
  if (append_well_formed(text, bytes) > 0) text += kReplacementCharacter;
  return text;
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto found = impl_->ids.find(token);
  return found == impl_->ids.end() ? std::nullopt : std::optional(found->second);
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  const Token* token = impl_->find(id);
  if (token == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "the tokenizer does not define this token id",
                                              .where = "token_bytes",
                                              .expected = "an id in [0, " + std::to_string(vocab_size()) + ")",
                                              .got = std::to_string(id)});
  }
  return token->bytes;
}

bool Tokenizer::contains(int32_t id) const noexcept { return impl_->find(id) != nullptr; }

bool Tokenizer::is_special(int32_t id) const noexcept {
  const Token* token = impl_->find(id);
  return token != nullptr && token->special;
}

int32_t Tokenizer::vocab_size() const noexcept { return static_cast<int32_t>(impl_->tokens.size()); }

std::string StreamDecoder::push(int32_t id) {
  tokenizer_->impl_->append_token(id, skip_special_tokens_, pending_);
  std::string text;
  const size_t num_incomplete = append_well_formed(text, pending_);
  pending_.erase(0, pending_.size() - num_incomplete);
  return text;
}

std::string StreamDecoder::flush() {
  std::string text(pending_.empty() ? std::string_view{} : kReplacementCharacter);
  pending_.clear();
  return text;
}

}  // namespace foretoken
