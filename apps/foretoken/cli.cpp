#include "apps/foretoken/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <ranges>
#include <span>

#include "apps/foretoken/command.h"
#include "apps/foretoken/console.h"
#include "apps/foretoken/exit_status.h"
#include "apps/foretoken/help.h"
#include "apps/foretoken/options.h"
#include "core/error.h"
#include "foretoken_build_info.h"

namespace foretoken::cli {
namespace {

/// Words of a command's name: 2 for "bench decode".
size_t num_words(std::string_view name) { return static_cast<size_t>(std::ranges::count(name, ' ')) + 1; }

std::string joined(std::span<const std::string> words) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : " ").append(word);
  return out;
}

/// The command whose name the words start with; null when there is none.
const CommandSpec* find_command(std::span<const std::string> words) {
  for (const CommandSpec& command : commands()) {
    const size_t count = num_words(command.name);
    if (words.size() >= count && joined(words.first(count)) == command.name) return &command;
  }
  return nullptr;
}

/// Commands that continue `word`, as `bench decode` continues `bench`.
std::vector<const CommandSpec*> commands_below(const std::string& word) {
  std::vector<const CommandSpec*> below;
  for (const CommandSpec& command : commands()) {
    if (command.name.starts_with(word + " ")) below.push_back(&command);
  }
  return below;
}

[[noreturn]] void fail_unknown(std::span<const std::string> words) {
  std::vector<std::string> names{"help"};
  for (const CommandSpec& command : commands()) names.emplace_back(command.name);
  std::string below;
  for (const CommandSpec* command : commands_below(words[0])) below.append(below.empty() ? "" : ", ").append(command->name);
  if (!below.empty()) throw UsageError("'" + words[0] + "' is not a command by itself; there is: " + below);
  const auto meant = nearest(words.size() > 1 && !words[1].starts_with('-') ? joined(words.first(2)) : words[0], names);
  const auto meant_first = meant ? meant : nearest(words[0], names);
  throw UsageError("unknown command '" + words[0] + "'" + (meant_first ? ", did you mean '" + *meant_first + "'?" : ""));
}

int run_help(std::span<const std::string> words) {
  std::string text;
  if (words.empty()) {
    text = general_help();
  } else if (words[0] == "--markdown") {
    text = markdown_help();
  } else if (words[0] == "--man") {
    text = man_page();
  } else if (words[0] == "--completion") {
    if (words.size() != 2 || words[1] != "bash") throw UsageError("help --completion: expected the name of a shell: bash");
    text = bash_completion();
  } else if (const CommandSpec* command = find_command(words)) {
    text = command_help(*command);
  } else {
    for (const CommandSpec* below : commands_below(words[0])) text += command_help(*below);
    if (text.empty()) fail_unknown(words);
  }
  fmt::print("{}", text);
  return kExitOk;
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print(stderr, "{}\n", general_help());
    throw UsageError("no command");
  }
  const std::span<const std::string> all(words);
  if (words[0] == "--help" || words[0] == "-h") return run_help({});
  if (words[0] == "help") return run_help(all.subspan(1));
  if (words[0] == "--version") {
    fmt::print("foretoken {}\n", kVersion);
    return kExitOk;
  }
  if (words[0].starts_with('-')) throw UsageError("unknown option '" + words[0] + "' before a command");
  const CommandSpec* command = find_command(all);
  if (command == nullptr && words.size() > 1 && (words[1] == "--help" || words[1] == "-h")) return run_help(all.first(1));
  if (command == nullptr) fail_unknown(all);
  const auto rest = all.subspan(num_words(command->name));
  const Options options(*command, {rest.begin(), rest.end()});
  if (!options.wants_help()) return command->run(options);
  fmt::print("{}", command_help(*command));
  return kExitOk;
}

}  // namespace

int run(const std::vector<std::string>& words) noexcept {
  try {
    const int status = dispatch(words);
    finish_stdout();
    return status;
  } catch (const UsageError& error) {
    const std::string_view space = error.command().empty() ? "" : " ";
    print_message("usage error", fmt::format("{}\n  see 'foretoken {}{}--help'", error.what(), error.command(), space));
    return kExitUsage;
  } catch (const Error& error) {
    print_message(to_string(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    print_message(to_string(ErrorCode::kOutOfMemory), "the host has no memory left for this");
  } catch (const std::exception& error) {
    print_message(to_string(ErrorCode::kInternalError), error.what());
  }
  return kExitFailure;
}

}  // namespace foretoken::cli
