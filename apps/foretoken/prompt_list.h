// The prompts of commands that take many: --prompts or --token-ids-file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/foretoken/options.h"
#include "speculative/engine.h"

namespace foretoken::cli {

/// One message per line, where empty lines do not count; of a .jsonl file {"prompt": TEXT} per line. Throws InvalidArgument.
[[nodiscard]] std::vector<std::string> read_messages(const std::string& path);
/// A JSON list of lists. Throws InvalidArgument.
[[nodiscard]] std::vector<std::vector<int32_t>> read_token_ids(const std::string& path);

/// Throws UsageError when both are given.
void check_prompt_list_options(const Options& options);
/// Whether one of them is given.
[[nodiscard]] bool has_prompt_list(const Options& options);

/// Token ids of each prompt, at least one prompt, each with at least one token: of --token-ids-file, else of the messages of
/// --prompts, formatted as ChatML; of `messages` where neither is given. Throws InvalidArgument (a file that cannot be read or is
/// none of prompts, no prompts, an empty one, ids outside the vocabulary) and Unsupported (text for a model without a tokenizer).
[[nodiscard]] std::vector<std::vector<int32_t>> read_prompt_list(const Options& options, const Engine& engine,
                                                                 std::span<const std::string_view> messages = {});

}  // namespace foretoken::cli
