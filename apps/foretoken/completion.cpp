// Completion for bash, made from the commands' tables.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/foretoken/command.h"
#include "apps/foretoken/help.h"
#include "backends/conformance/conformance.h"
#include "models/synth.h"

namespace foretoken::cli {
namespace {

/// Up to where the tables begin. Sets `cur`, the word to complete; `at`, its index; `command` and `option`, what it belongs to.
constexpr std::string_view kWords = R"(# Completion of foretoken for bash; printed by `foretoken help --completion bash`.
_foretoken() {
  local -a words=()
  local word prefix glued=''
  for word in "${COMP_WORDS[@]:0:COMP_CWORD + 1}"; do  # bash splits words at : and =, which are part of them here
    if [[ ${#words[@]} -gt 0 && ( $glued || $word =~ ^[:=]+$ ) ]]; then
      words[-1]+=$word
      [[ $word =~ ^[:=]+$ ]] && glued=1 || glued=''
    else
      words+=("$word")
    fi
  done
  local cur=${words[-1]} command=${words[1]-} option='' kind='words' offers=''
  local -i at=${#words[@]}-1
  [[ $at -gt 1 ]] && option=${words[at - 1]}
  if [[ $cur == --*=* ]]; then
    option=${cur%%=*}
    cur=${cur#*=}
  fi
)";

/// After the tables, which say what to offer (`offers`) and how (`kind`).
constexpr std::string_view kReply = R"(
  COMPREPLY=()
  prefix=${cur%"${cur##*,}"}
  case $kind in
    words) mapfile -t COMPREPLY < <(compgen -W "$offers" -- "$cur") ;;
    list) mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$offers" -- "${cur#"$prefix"}") ;;
    file) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    files) mapfile -t COMPREPLY < <(compgen -P "$prefix" -f -- "${cur#"$prefix"}") ;;
    folder) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    model)
      mapfile -t COMPREPLY < <(compgen -W "$offers" -- "$cur")
      [[ ${#COMPREPLY[@]} -eq 0 ]] && kind=folder
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur")
      ;;
  esac
  [[ $kind =~ ^(file|files|folder)$ ]] && compopt -o filenames 2> /dev/null
  if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then  # bash keeps what is before the last colon
    COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}")
  fi
}
complete -F _foretoken foretoken
)";

template <class Words>
std::string joined_words(const Words& words, std::string_view prefix = {}) {
  std::string out;
  for (const auto& word : words) out += fmt::format("{}{}{}", out.empty() ? "" : " ", prefix, word);
  return out;
}

std::string_view first_word(std::string_view name) { return name.substr(0, name.find(' ')); }

std::string model_rule() { return fmt::format("kind=model offers='{}'", joined_words(synth_model_names(), "synth:")); }

/// The shell assignments that say how the value of an option is completed.
std::string value_rule(const OptionSpec& option) {
  const std::string_view argument = option.argument;
  if (!option.values.empty()) return fmt::format("kind={} offers='{}'", argument == "LIST" ? "list" : "words", option.values);
  if (option.name == "like") return fmt::format("offers='{}'", joined_words(synth_model_names()));
  if (option.name == "op") return fmt::format("offers='{}'", joined_words(conformance_ops()));
  if (argument == "MODEL") return model_rule();
  if (argument == "DIR") return "kind=folder";
  if (argument == "F" || argument == "FILE" || argument == "N|FILE") return "kind='file'";
  if (argument == "F,...") return "kind=files";
  return "kind=text";
}

/// Branches of a `case`: each rule once, with all the patterns that it is for.
class Branches {
 public:
  void add(const std::string& pattern, const std::string& rule) {
    const auto found = std::ranges::find(branches_, rule, &std::pair<std::string, std::string>::first);
    if (found == branches_.end()) {
      branches_.emplace_back(rule, pattern);
    } else {
      found->second += " | " + pattern;
    }
  }
  [[nodiscard]] std::string text(std::string_view indent) const {
    std::string out;
    for (const auto& [rule, patterns] : branches_) out += fmt::format("{}{}) {} ;;\n", indent, patterns, rule);
    return out;
  }

 private:
  std::vector<std::pair<std::string, std::string>> branches_;  // rule, patterns
};

std::vector<std::string> first_words() {
  std::vector<std::string> words;
  for (const CommandSpec& command : commands()) {
    const std::string word(first_word(command.name));
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return words;
}

/// The second words of commands like `bench decode`, by their first.
Branches second_words() {
  Branches branches;
  for (const std::string& first : first_words()) {
    std::string words;
    for (const CommandSpec& command : commands()) {
      if (!command.name.starts_with(first + " ")) continue;
      words += fmt::format("{}{}", words.empty() ? "" : " ", command.name.substr(first.size() + 1));
    }
    if (!words.empty()) branches.add(first, fmt::format("offers='{}'", words));
  }
  return branches;
}

Branches option_values() {
  Branches branches;
  for (const CommandSpec& command : commands()) {
    for (const OptionSpec& option : command.options) {
      if (!option.argument.empty()) branches.add(fmt::format("'{} --{}'", command.name, option.name), value_rule(option));
    }
  }
  return branches;
}

/// What may stand where no value is expected: options, or the command's argument.
std::string command_branches() {
  std::string out;
  for (const CommandSpec& command : commands()) {
    std::string options;
    for (const OptionSpec& option : command.options) options += fmt::format("--{} ", option.name);
    out += fmt::format("          '{}')\n            offers='{}--help'\n", command.name, options);
    if (command.argument == "MODEL") {
      out += fmt::format("            [[ $cur == -* ]] || {{ {}; }}\n", model_rule());
    }
    out += "            ;;\n";
  }
  return out;
}

}  // namespace

std::string bash_completion() {
  std::string names;
  for (const CommandSpec& command : commands()) {
    if (command.name.find(' ') != std::string_view::npos)
      names += fmt::format("{}'{}'", names.empty() ? "" : " | ", command.name);
  }
  const std::string first = joined_words(first_words());
  std::string out(kWords);
  out += fmt::format(
      "  case \"$command ${{words[2]-}}\" in\n    {})\n      [[ $at -gt 2 ]] && command+=\" ${{words[2]}}\" ;;\n  esac\n", names);
  out += "  if [[ $at -eq 1 ]]; then\n";
  out += fmt::format("    offers='{} help --help --version'\n", first);
  out += "  elif [[ $command == help && $at -eq 2 ]]; then\n";
  out += fmt::format("    offers='{} --markdown --man --completion'\n", first);
  out += "  elif [[ $command == help && $at -eq 3 ]]; then\n";
  out +=
      fmt::format("    case ${{words[2]}} in\n{}      --completion) offers=bash ;;\n    esac\n", second_words().text("      "));
  out += "  else\n    case \"$command $option\" in\n" + option_values().text("      ");
  out += "      *)\n        case $command in\n" + command_branches() + second_words().text("          ") +
         "        esac\n        ;;\n    esac\n  fi";
  return out.append(kReply);
}

}  // namespace foretoken::cli
