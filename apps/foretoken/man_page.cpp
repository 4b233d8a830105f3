// The man page foretoken(1).
#include <fmt/format.h>

#include "apps/foretoken/help.h"
#include "apps/foretoken/help_texts.h"
#include "foretoken_build_info.h"

namespace foretoken::cli {
namespace {

/// Text with the characters that roff would take for its own, or print as others, written as escapes.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '"': out += "\\(dq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      case '.': out += out.empty() ? "\\&." : "."; break;  // a request, at the beginning of a line
      default: out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fP"; }

/// A line of text, in which `words between backquotes` are bold.
std::string prose(std::string_view text) {
  std::string out;
  for (bool quoted = false;; quoted = !quoted) {
    const size_t end = std::min(text.find('`'), text.size());
    const std::string_view part = text.substr(0, end);
    out += quoted ? bold(part) : escaped(part);
    if (end == text.size()) return out + "\n";
    text.remove_prefix(end + 1);
  }
}

/// A paragraph under a term, which is in roff already.
std::string item(std::string_view term, std::string_view text) { return fmt::format(".TP\n{}\n{}", term, prose(text)); }

std::string option_item(const OptionSpec& option) {
  std::string term = bold(fmt::format("--{}", option.name));
  if (!option.argument.empty()) term += " \\fI" + escaped(option.argument) + "\\fP";
  return item(term, help_of(option));
}

std::string command_part(const CommandSpec& command) {
  std::string out = fmt::format(".SS {}\n{}.PP\n{}", escaped(usage_of(command)), prose(fmt::format("{}.", command.summary)),
                                prose(command.description));
  for (const OptionSpec& option : command.options) out += option_item(option);
  return out;
}

std::string example_part(const Example& example) {
  return fmt::format(".PP\n{}.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n", prose(fmt::format("{}:", example.purpose)),
                     escaped(example.command));
}

}  // namespace

std::string man_page() {
  std::string out = fmt::format(".TH FORETOKEN 1 \"\" \"foretoken {}\" \"User Commands\"\n", kVersion);
  out += ".SH NAME\nforetoken \\- lossless speculative decoding with multi\\-token\\-prediction heads\n";
  out +=
      ".SH SYNOPSIS\n.B foretoken\n.I COMMAND\n[options]\n.br\n.B foretoken help\n[\\fICOMMAND\\fP]\n.br\n.B foretoken "
      "\\-\\-version\n";
  out += ".SH DESCRIPTION\n" + prose(kIntroduction) + ".PP\n" + prose(kOutputRule) + ".PP\n" + prose(kModelArgument);
  out += ".SH COMMANDS\n";
  for (const CommandSpec& command : commands()) out += command_part(command);
  out += ".SH EXIT STATUS\n";
  for (const auto& [status, text] : kExitStatuses) out += item(bold(fmt::format("{}", status)), text);
  out += ".SH ENVIRONMENT\n";
  for (const auto& [name, text] : kEnvironment) out += item(bold(name), text);
  out += ".SH EXAMPLES\n";
  for (const CommandSpec& command : commands()) {
    for (const Example& example : command.examples) out += example_part(example);
  }
  return out;
}

}  // namespace foretoken::cli
