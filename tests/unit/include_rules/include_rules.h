// Who may include whom: the table of docs/design.md as a function over source text.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken::include_rules {

struct Violation {
  std::string file;
  int line = 0;  // from 1
  std::string message;
};

/// Whether the rules look at a file of this name.
bool is_source(const std::filesystem::path& file);

/// The violations in one file. `file` is relative to the source tree, with '/' between folders.
std::vector<Violation> check(std::string_view file, std::string_view text);

}  // namespace foretoken::include_rules
