// What the header of an operator says in comments: its formulas and its fields.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace foretoken {

/// One operator structure of a header.
struct OpDeclaration {
  std::string type;    // "RmsNorm"
  std::string text;    // the comment above it, without its slashes; may be empty
  std::string fields;  // its data members with their comments, as they are written
};

struct OpHeader {
  std::string path;  // "core/ops/rms_norm.h"
  std::string text;  // the comment that the file begins with
  std::vector<OpDeclaration> ops;
};

/// Reads the headers of `folder` that declare operators, by name. Throws Error (kFormatError) for a file that cannot be read.
[[nodiscard]] std::vector<OpHeader> read_op_headers(const std::filesystem::path& folder);

/// "rms_norm" for "RmsNorm": what an operator's schema is called.
[[nodiscard]] std::string schema_name(std::string_view type);

}  // namespace foretoken
