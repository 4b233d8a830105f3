#include "apps/foretoken/prompt.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "apps/foretoken/prompt_list.h"
#include "core/error.h"
#include "models/chat_format.h"

namespace foretoken::cli {
namespace {

constexpr std::array<std::string_view, 6> kSources{"prompt", "chat", "prompt-file", "token-ids", "prompts", "token-ids-file"};
constexpr size_t kMaxFileBytes = size_t{1} << 30;  // what the tokenizer takes at once

std::string_view given_source(const Options& options) {
  std::string_view given;
  for (const std::string_view source : kSources) {
    if (!options.has(source)) continue;
    if (!given.empty()) options.fail("more than one kind of prompt: --" + std::string(given) + " and --" + std::string(source));
    given = source;
  }
  if (!given.empty()) return given;
  options.fail(
      "no prompt: expected --prompt, --chat, --prompt-file and --token-ids, each as often as there are prompts, or one of "
      "--prompts and --token-ids-file");
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

PromptSources prompt_sources(const Options& options) {
  using Kind = PromptSources::Kind;
  const std::string_view source = given_source(options);
  PromptSources sources{.system = options.text("system")};
  if (source == "prompt") {
    sources.texts = options.all_texts(source);
  } else if (source == "prompt-file") {
    for (const std::string& path : options.all_texts(source)) sources.texts.push_back(read_text(path));
  } else if (source == "chat" || source == "prompts") {
    sources.kind = Kind::kMessages;
    sources.texts = source == "chat" ? options.all_texts(source) : read_messages(options.required_text(source));
  } else {
    sources.kind = Kind::kTokenIds;
    if (source == "token-ids-file") {
      sources.token_ids = read_token_ids(options.required_text(source));
    } else {
      for (const auto& ids : options.integer_lists(source, INT32_MIN, INT32_MAX)) {
        sources.token_ids.emplace_back(ids.begin(), ids.end());
      }
    }
  }
  if (sources.system && sources.kind != Kind::kMessages) options.fail("--system goes with --chat and --prompts only");
  if (sources.size() == 0) throw Error(ErrorCode::kInvalidArgument, "there are no prompts, expected at least one");
  return sources;
}

void check_prompt(std::span<const int32_t> token_ids, int64_t vocab_size, const std::string& name) {
  if (token_ids.empty()) throw Error(ErrorCode::kInvalidArgument, name + " is empty, expected at least one token");
  for (size_t i = 0; i < token_ids.size(); ++i) {
    if (token_ids[i] >= 0 && token_ids[i] < vocab_size) continue;
    throw Error(ErrorCode::kInvalidArgument, {.what = "token id out of range",
                                              .where = "token " + std::to_string(i) + " of " + name,
                                              .expected = "0 .. " + std::to_string(vocab_size - 1),
                                              .got = std::to_string(token_ids[i])});
  }
}

std::vector<std::vector<int32_t>> encode_prompts(const PromptSources& sources, const Engine& engine) {
  using Kind = PromptSources::Kind;
  std::vector<std::vector<int32_t>> prompts = sources.token_ids;
  if (sources.kind != Kind::kTokenIds && engine.tokenizer() == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                engine.model_name() + " has no tokenizer, so it takes --token-ids and --token-ids-file only");
  }
  for (const std::string& text : sources.texts) {
    if (sources.kind == Kind::kText) {
      prompts.push_back(engine.tokenizer()->encode(text, SpecialTokens::kParse));
    } else if (text.empty()) {
      prompts.emplace_back();
    } else {
      prompts.push_back(encode_chat(*engine.tokenizer(), sources.system, text));
    }
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    check_prompt(prompts[i], engine.config().vocab_size, prompts.size() == 1 ? "the prompt" : "prompt " + std::to_string(i + 1));
  }
  return prompts;
}

}  // namespace foretoken::cli
