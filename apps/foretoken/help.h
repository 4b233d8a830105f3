// Help texts, made from the commands' tables: for the terminal and as docs/cli.md.
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

}  // namespace foretoken::cli
