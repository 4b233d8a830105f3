// JSON files of a checkpoint, read under limits. For the sources of this folder, not for callers.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace foretoken {

/// Parses JSON; `origin` names it in errors. Throws FormatError with the byte and the last key for text that is not valid JSON
/// (numbers that no double holds included), nests deeper than 32 levels, or gives a key of an object twice.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& origin);

/// The text of a file of at most 100 MB. Throws InvalidArgument when it cannot be read, FormatError when it is larger.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path);

}  // namespace foretoken
