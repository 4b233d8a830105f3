// From the words of a command line to a command and an exit status.
#pragma once

#include <string>
#include <vector>

namespace foretoken::cli {

/// Runs the tool with the words after the program's name; returns the exit status (see exit_status.h). Errors go to stderr as
/// `foretoken: <kind>: <message>`. Throws nothing.
[[nodiscard]] int run(const std::vector<std::string>& words) noexcept;

}  // namespace foretoken::cli
