#include "models/chat_format.h"

#include <string>

#include "core/error.h"

namespace foretoken {
namespace {

int32_t require_token(const Tokenizer& tokenizer, std::string_view token) {
  const std::optional<int32_t> id = tokenizer.token_to_id(token);
  if (id) return *id;
  throw Error(ErrorCode::kUnsupported, {.what = "the tokenizer has no ChatML tokens",
                                        .where = "chat format",
                                        .expected = "a token " + std::string(token),
                                        .got = "none"});
}

class ChatWriter {
 public:
  explicit ChatWriter(const Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        im_start_(require_token(tokenizer, "<|im_start|>")),
        im_end_(require_token(tokenizer, "<|im_end|>")) {}

  /// Role and content are encoded as one text, as they stand beside each other in the conversation.
  void message(std::string_view role, std::string_view content) {
    ids_.push_back(im_start_);
    text(std::string(role) + "\n" + std::string(content));
    ids_.push_back(im_end_);
    text("\n");
  }
  void open_message(std::string_view role) {
    ids_.push_back(im_start_);
    text(std::string(role) + "\n");
  }
  std::vector<int32_t> take() { return std::move(ids_); }

 private:
  void text(std::string_view text) {
    const std::vector<int32_t> ids = tokenizer_.encode(text, SpecialTokens::kPlainText);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  const Tokenizer& tokenizer_;
  int32_t im_start_;
  int32_t im_end_;
  std::vector<int32_t> ids_;
};

}  // namespace

std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, std::optional<std::string_view> system, std::string_view user) {
  ChatWriter chat(tokenizer);
  if (system) chat.message("system", *system);
  chat.message("user", user);
  chat.open_message("assistant");
  return chat.take();
}

}  // namespace foretoken
