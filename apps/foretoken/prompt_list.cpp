#include "apps/foretoken/prompt_list.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "apps/foretoken/prompt.h"
#include "core/error.h"
#include "models/chat_format.h"

namespace foretoken::cli {
namespace {

using Json = nlohmann::json;
using Prompts = std::vector<std::vector<int32_t>>;

[[noreturn]] void refuse(const std::string& path, const std::string& expected, const std::string& got) {
  throw Error(ErrorCode::kInvalidArgument, {.what = "not a file of prompts", .where = path, .expected = expected, .got = got});
}

/// The message of a line of JSON.
std::string message_of(const std::string& path, const std::string& line) {
  try {
    return Json::parse(line).at("prompt").get<std::string>();
  } catch (const Json::exception& error) {
    refuse(path, R"(lines like {"prompt": "TEXT"})", error.what());
  }
}

Prompts encode(const Options& options, const Engine& engine, std::span<const std::string_view> messages) {
  if (engine.tokenizer() == nullptr) {
    throw Error(ErrorCode::kUnsupported, engine.model_name() + " has no tokenizer, so it takes --token-ids-file only");
  }
  Prompts prompts;
  const auto add = [&](std::string_view message) { prompts.push_back(encode_chat(*engine.tokenizer(), std::nullopt, message)); };
  if (options.has("prompts")) {
    for (const std::string& message : read_messages(options.required_text("prompts"))) add(message);
  } else {
    for (const std::string_view message : messages) add(message);
  }
  return prompts;
}

}  // namespace

std::vector<std::vector<int32_t>> read_token_ids(const std::string& path) {
  constexpr const char* kExpected = "a JSON list of lists of token ids";
  std::vector<std::vector<Json>> lists;
  try {
    lists = Json::parse(read_text(path)).get<std::vector<std::vector<Json>>>();
  } catch (const Json::exception& error) {
    refuse(path, kExpected, error.what());
  }
  Prompts prompts;
  for (const std::vector<Json>& list : lists) {
    std::vector<int32_t>& ids = prompts.emplace_back();
    for (const Json& id : list) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) refuse(path, kExpected, id.dump());
      ids.push_back(id.get<int32_t>());
    }
  }
  return prompts;
}

std::vector<std::string> read_messages(const std::string& path) {
  std::istringstream text(read_text(path));
  std::vector<std::string> messages;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) messages.push_back(path.ends_with(".jsonl") ? message_of(path, line) : line);
  }
  return messages;
}

void check_prompt_list_options(const Options& options) {
  if (options.has("prompts") && options.has("token-ids-file")) options.fail("--prompts and --token-ids-file exclude each other");
}

bool has_prompt_list(const Options& options) { return options.has("prompts") || options.has("token-ids-file"); }

std::vector<std::vector<int32_t>> read_prompt_list(const Options& options, const Engine& engine,
                                                   std::span<const std::string_view> messages) {
  Prompts prompts =
      options.has("token-ids-file") ? read_token_ids(options.required_text("token-ids-file")) : encode(options, engine, messages);
  if (prompts.empty()) throw Error(ErrorCode::kInvalidArgument, "there are no prompts, expected at least one");
  for (size_t i = 0; i < prompts.size(); ++i) {
    check_prompt(prompts[i], engine.config().vocab_size, "prompt " + std::to_string(i + 1));
  }
  return prompts;
}

}  // namespace foretoken::cli
