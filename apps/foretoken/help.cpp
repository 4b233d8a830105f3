#include "apps/foretoken/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/foretoken/help_texts.h"

namespace foretoken::cli {
namespace {

constexpr size_t kLineWidth = 100;

constexpr std::string_view kGenerateJson = R"(## JSON of generate

```
{"model", "backend", "activations", "kv_dtype", "draft_kv_dtype",
 "prompt_tokens", "cached_prompt_tokens", "output_token_ids": [], "text", "finish_reason": "stop" | "length", "preemptions",
 "timing_ms": {"load", "prefill", "decode", "draft", "verify", "host"}, "decode_tokens_per_second",
 "speculation": {"enabled", "speculative_tokens",
                 "draft_precision": {"requested", "requested_lm_head", "effective", "stored": {"fc", ...}},
                 "rounds", "drafted", "accepted", "accepted_per_round": [],
                 "acceptance_by_position": [], "mean_tokens_per_round"},
 "compare": {"plain_tokens_per_second", "speedup", "identical"},
 "self_check": {"rows_checked", "rows_different", "first_difference"}}
```

`output_token_ids` include the end token; `text` leaves special tokens out and is null for a model without a tokenizer. Decode time starts
after the first token and is made of draft, verify and host time. `acceptance_by_position` holds, for j = 1, 2, ..., the share of
rounds that accepted at least j drafts. `draft_precision` is null without a draft head; `stored` has the format of each of its parts
in memory, and `effective` is what engines that run an NVFP4 head with a dense feed-forward in BF16 call the request. `compare` and
`self_check` are there when they were asked for.

With several prompts, what follows `draft_kv_dtype` is there for each, as the items of the list `results`, in the order of the prompts;
`timing_ms` then has `load` and `texts`, the time from the beginning of the first text to the end of the last. Times of rounds are those
of all texts in them.

)";

/// Breaks `text` into lines that start at column `indent`; the first line starts wherever the caller is, at `column`.
std::string wrapped(std::string_view text, size_t indent, size_t column) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (column > indent && column + 1 + word.size() > kLineWidth) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + '\n';
}

template <class Pairs>
std::string table(const Pairs& rows) {
  size_t width = 0;
  for (const auto& [name, text] : rows) width = std::max(width, fmt::formatted_size("{}", name));
  std::string out;
  for (const auto& [name, text] : rows) out += fmt::format("  {:<{}}  ", name, width) + wrapped(text, width + 4, width + 4);
  return out;
}

/// Words and help of each option.
std::vector<std::pair<std::string, std::string>> option_rows(const CommandSpec& command) {
  std::vector<std::pair<std::string, std::string>> rows;
  rows.reserve(command.options.size() + 1);
  for (const OptionSpec& option : command.options) rows.emplace_back(words_of(option), help_of(option));
  return rows;
}

/// A table cell: a bar would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

template <class Pairs>
std::string markdown_table(std::string_view left, std::string_view right, const Pairs& rows) {
  std::string out = fmt::format("| {} | {} |\n|---|---|\n", left, right);
  for (const auto& [name, text] : rows) out += fmt::format("| `{}` | {} |\n", cell(fmt::format("{}", name)), cell(text));
  return out + '\n';
}

std::string markdown_of(const CommandSpec& command) {
  std::string out = fmt::format("## foretoken {}\n\n{}.\n\n```\n{}\n```\n\n", command.name, command.summary, usage_of(command));
  out += fmt::format("{}\n\n", command.description);
  const auto rows = option_rows(command);
  out += markdown_table("option", "meaning", rows);
  out += "```sh\n";
  for (const Example& example : command.examples) out += fmt::format("# {}\n{}\n", example.purpose, example.command);
  return out + "```\n\n";
}

}  // namespace

std::string general_help() {
  std::string out = "Usage: foretoken COMMAND [options]\n\n" + wrapped(kIntroduction, 0, 0) + "\nCommands:\n";
  std::vector<std::pair<std::string_view, std::string_view>> rows;
  for (const CommandSpec& command : commands()) rows.emplace_back(command.name, command.summary);
  rows.emplace_back("help [COMMAND]", "Show this text or the help of a command; --man: all of it as a man page");
  out += table(rows) + "\nOptions:\n  --help     show this text; after a command, its help\n  --version  show the version\n";
  out += "\nExit status:\n" + table(kExitStatuses) + "\nEnvironment:\n" + table(kEnvironment);
  out += "\nTry it, with the bundled checkpoint:\n  foretoken generate --chat 'What does \"eccentric\" mean?' --compare\n";
  return out;
}

std::string command_help(const CommandSpec& command) {
  std::string out = "Usage: " + usage_of(command) + "\n\n" + wrapped(command.description, 0, 0) + "\nOptions:\n";
  auto rows = option_rows(command);
  rows.emplace_back("-h, --help", "show this text");
  out += table(rows) + "\nExamples:\n";
  for (const Example& example : command.examples) out += fmt::format("  # {}\n  {}\n", example.purpose, example.command);
  return out + "\nExit status:\n" + table(kExitStatuses);
}

std::string markdown_help() {
  std::string out = fmt::format("# Command line\n\n{}\n\nThis page is printed by `foretoken help --markdown`, ", kIntroduction);
  out += "the man page by `foretoken help --man`, completion for bash by `foretoken help --completion bash`.\n\n";
  out += fmt::format("{}\n\n{}\n\n", kOutputRule, kModelArgument);
  for (const CommandSpec& command : commands()) out += markdown_of(command);
  out += kGenerateJson;
  out += "## Exit status\n\n" + markdown_table("status", "meaning", kExitStatuses);
  out += "## Environment\n\n" + markdown_table("variable", "meaning", kEnvironment);
  out.pop_back();
  return out;
}

}  // namespace foretoken::cli
