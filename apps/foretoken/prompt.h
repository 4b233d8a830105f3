// The prompt of `generate`: one of --prompt, --chat, --prompt-file and --token-ids.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/foretoken/options.h"
#include "speculative/engine.h"

namespace foretoken::cli {

/// The whole of a file, or of stdin for "-". Throws InvalidArgument: it cannot be read, or is too long for a prompt.
[[nodiscard]] std::string read_text(const std::string& path);

/// Throws UsageError unless exactly one of the four is given, and for --system without --chat or malformed --token-ids.
void check_prompt_options(const Options& options);

/// Throws InvalidArgument for no token ids and for one outside the vocabulary.
void check_prompt(std::span<const int32_t> token_ids, int64_t vocab_size);

/// The prompt's token ids, at least one. Throws InvalidArgument (an empty prompt, a file that cannot be read, ids outside the
/// vocabulary) and Unsupported (text for a model without a tokenizer).
[[nodiscard]] std::vector<int32_t> read_prompt(const Options& options, const Engine& engine);

}  // namespace foretoken::cli
