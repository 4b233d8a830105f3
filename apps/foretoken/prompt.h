// The prompts of `generate`: of --prompt, --chat, --prompt-file, --token-ids, --prompts or --token-ids-file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/foretoken/options.h"
#include "speculative/engine.h"

namespace foretoken::cli {

/// The whole of a file, or of stdin for "-". Throws InvalidArgument: it cannot be read, or is too long for a prompt.
[[nodiscard]] std::string read_text(const std::string& path);

/// What prompts are made of, known before there is a model.
struct PromptSources {
  enum class Kind : uint8_t { kText, kMessages, kTokenIds };

  Kind kind = Kind::kText;
  std::vector<std::string> texts{};  // or messages
  std::vector<std::vector<int32_t>> token_ids{};
  std::optional<std::string> system{};  // of messages

  [[nodiscard]] size_t size() const { return kind == Kind::kTokenIds ? token_ids.size() : texts.size(); }
};

/// At least one. Throws UsageError unless exactly one of the options is given, and for --system without messages or malformed
/// --token-ids; InvalidArgument for a file that cannot be read or has no prompts.
[[nodiscard]] PromptSources prompt_sources(const Options& options);

/// Throws InvalidArgument, which calls it by `name`, for no token ids and for one outside the vocabulary.
void check_prompt(std::span<const int32_t> token_ids, int64_t vocab_size, const std::string& name = "the prompt");

/// Token ids of each prompt, at least one. Throws InvalidArgument (an empty prompt, ids outside the vocabulary) and Unsupported
/// (text for a model without a tokenizer).
[[nodiscard]] std::vector<std::vector<int32_t>> encode_prompts(const PromptSources& sources, const Engine& engine);

}  // namespace foretoken::cli
