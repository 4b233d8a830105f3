// Byte-level BPE tokenizer read from a tokenizer.json, and the streaming decoder that turns its ids back into text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken {

/// What an added token's text ("<|im_end|>", "<think>") inside the input means.
enum class SpecialTokens : uint8_t {
  kParse,     // it becomes the token's id
  kPlainText  // it is text like any other
};

/// Text to ids and back, as the checkpoint's tokenizer.json says. Immutable after load and safe to use from several threads at
/// once (the word cache inside is locked). Move-only.
class Tokenizer {
 public:
  /// Reads `directory_or_json`, a checkpoint directory or its tokenizer.json. Throws InvalidArgument when there is no such file,
  /// FormatError that names file and item when it is malformed, Unsupported that names a normalizer, pre-tokenizer, decoder,
  /// model type or flag whose rule is not implemented.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& directory_or_json);
  /// The same from the text of a tokenizer.json; `origin` names it in errors.
  [[nodiscard]] static Tokenizer parse(std::string_view json_text, const std::string& origin);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Token ids of UTF-8 `text`, without a begin or end token. Each maximal ill-formed part of the text counts as U+FFFD. Throws
  /// InvalidArgument for a text of 1 GiB or more, or when the file's split pattern exceeds its match budget on it.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, SpecialTokens mode) const;

  /// Text of `ids`, always well-formed UTF-8: each maximal ill-formed part of the joined bytes becomes U+FFFD. With
  /// `skip_special_tokens`, tokens flagged special add nothing. A non-negative id that the file does not define (models pad their
  /// vocabulary) decodes to U+FFFD; a negative one throws InvalidArgument.
  [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  /// Id of the token whose text in tokenizer.json is `token` ("<|im_end|>"; ordinary tokens in the byte-level alphabet, "Ġthe").
  [[nodiscard]] std::optional<int32_t> token_to_id(std::string_view token) const;
  /// Bytes that token `id` stands for, owned by the tokenizer. Throws InvalidArgument for an id that the file does not define.
  [[nodiscard]] std::string_view token_bytes(int32_t id) const;
  /// Whether the file defines `id`.
  [[nodiscard]] bool contains(int32_t id) const noexcept;
  /// Whether `id` is an added token flagged special; false for ids that the file does not define.
  [[nodiscard]] bool is_special(int32_t id) const noexcept;
  /// Largest id + 1, added tokens included; often less than the model's padded vocab_size.
  [[nodiscard]] int32_t vocab_size() const noexcept;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl) noexcept;
  std::unique_ptr<const Impl> impl_;
};

/// Ids to text as they come. What push() returned so far plus flush() equals Tokenizer::decode of all the ids; no return value
/// ends inside a UTF-8 sequence. Borrows the tokenizer, which must outlive it at the same address. Not thread-safe.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens) noexcept
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  /// Complete text that `id` brings, perhaps none. Throws like Tokenizer::decode.
  [[nodiscard]] std::string push(int32_t id);
  /// U+FFFD when an incomplete sequence is left, else nothing; the decoder is then as new.
  [[nodiscard]] std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::string pending_;  // a well-formed but incomplete sequence, at most 3 bytes
};

}  // namespace foretoken
