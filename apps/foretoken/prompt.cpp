#include "apps/foretoken/prompt.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "models/chat_format.h"

namespace foretoken::cli {
namespace {

constexpr std::array<std::string_view, 4> kSources{"prompt", "chat", "prompt-file", "token-ids"};
constexpr size_t kMaxFileBytes = size_t{1} << 30;  // what the tokenizer takes at once

std::vector<int32_t> token_ids(const Options& options) {
  const auto values = options.integers("token-ids", INT32_MIN, INT32_MAX);
  return {values.begin(), values.end()};
}

std::vector<int32_t> encode(const Options& options, const Tokenizer& tokenizer) {
  if (const auto chat = options.text("chat")) {
    if (chat->empty()) return {};
    const auto system = options.text("system");
    return encode_chat(tokenizer, system ? std::optional<std::string_view>(*system) : std::nullopt, *chat);
  }
  const auto file = options.text("prompt-file");
  return tokenizer.encode(file ? read_text(*file) : options.text("prompt").value_or(""), SpecialTokens::kParse);
}

}  // namespace

std::string read_text(const std::string& path) {
  const auto fail = [&path](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, {.what = what, .where = path == "-" ? "stdin" : path});
  };
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) fail(std::string("cannot open the prompt file: ") + std::strerror(errno));
  std::string text;
  std::array<char, 65536> block{};
  size_t count = block.size();
  while (count == block.size()) {
    count = std::fread(block.data(), 1, block.size(), file.get());
    text.append(block.data(), count);
    if (text.size() >= kMaxFileBytes) fail("the prompt has 1 GiB or more");
  }
  if (std::ferror(file.get()) != 0) fail(std::string("cannot read the prompt file: ") + std::strerror(errno));
  return text;
}

void check_prompt_options(const Options& options) {
  size_t given = 0;
  for (const std::string_view source : kSources) given += options.has(source) ? 1 : 0;
  if (given != 1) {
    options.fail(std::string(given == 0 ? "no prompt" : "more than one prompt") +
                 ": expected exactly one of --prompt, --chat, --prompt-file and --token-ids");
  }
  if (options.has("system") && !options.has("chat")) options.fail("--system goes with --chat only");
  if (options.has("token-ids")) static_cast<void>(token_ids(options));
}

void check_prompt(std::span<const int32_t> token_ids, int64_t vocab_size) {
  if (token_ids.empty()) throw Error(ErrorCode::kInvalidArgument, "the prompt is empty, expected at least one token");
  for (size_t i = 0; i < token_ids.size(); ++i) {
    if (token_ids[i] >= 0 && token_ids[i] < vocab_size) continue;
    throw Error(ErrorCode::kInvalidArgument, {.what = "token id out of range",
                                              .where = "token " + std::to_string(i) + " of the prompt",
                                              .expected = "0 .. " + std::to_string(vocab_size - 1),
                                              .got = std::to_string(token_ids[i])});
  }
}

std::vector<int32_t> read_prompt(const Options& options, const Engine& engine) {
  std::vector<int32_t> ids;
  if (options.has("token-ids")) {
    ids = token_ids(options);
  } else if (engine.tokenizer() == nullptr) {
    throw Error(ErrorCode::kUnsupported, engine.model_name() + " has no tokenizer, so it takes --token-ids only");
  } else {
    ids = encode(options, *engine.tokenizer());
  }
  check_prompt(ids, engine.config().vocab_size);
  return ids;
}

}  // namespace foretoken::cli
