// ChatML: how Qwen checkpoints write a conversation.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/tokenizer.h"

namespace foretoken {

/// Ids of a one-turn conversation that waits for the assistant's answer:
///   <|im_start|>system\n{system}<|im_end|>\n        (only when there is a system text, be it empty)
///   <|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n
/// Text of special tokens inside `system` and `user` stays plain text. Throws Unsupported that names the token when the tokenizer
/// lacks <|im_start|> or <|im_end|>, and like Tokenizer::encode.
[[nodiscard]] std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, std::optional<std::string_view> system,
                                               std::string_view user);

}  // namespace foretoken
