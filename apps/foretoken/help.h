// Help texts, made from the commands' tables: for the terminal, as docs/cli.md, as a man page and for bash.
#pragma once

#include <string>

#include "apps/foretoken/command.h"

namespace foretoken::cli {

/// `foretoken --help`.
[[nodiscard]] std::string general_help();
/// `foretoken <command> --help`.
[[nodiscard]] std::string command_help(const CommandSpec& command);
/// The whole of docs/cli.md.
[[nodiscard]] std::string markdown_help();
/// The man page foretoken(1), in roff.
[[nodiscard]] std::string man_page();
/// A script that bash sources to complete commands, options and their values.
[[nodiscard]] std::string bash_completion();

}  // namespace foretoken::cli
