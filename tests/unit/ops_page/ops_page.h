// docs/ops.md: every operator, from its declaration.
#pragma once

#include <filesystem>
#include <string>

namespace foretoken {

/// The whole page; `source` is the root of the source tree. Throws Error (kInternalError) when headers and schemas do not agree
/// on which operators there are.
[[nodiscard]] std::string ops_page(const std::filesystem::path& source);

}  // namespace foretoken
