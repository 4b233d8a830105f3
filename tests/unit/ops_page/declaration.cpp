#include "tests/unit/ops_page/declaration.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "core/error.h"

namespace foretoken {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  if (lines.empty()) throw Error(ErrorCode::kFormatError, {.what = "cannot be read", .where = file.string()});
  return lines;
}

/// A comment's line without `slashes` and the space after them.
std::string without(std::string_view slashes, const std::string& line) {
  return line.substr(std::min(line.size(), slashes.size() + (line.size() > slashes.size() ? 1 : 0)));
}

/// The comment that ends right above line `index`.
std::string comment_above(const std::vector<std::string>& lines, size_t index) {
  size_t first = index;
  while (first > 0 && lines[first - 1].starts_with("///")) --first;
  std::string text;
  for (size_t i = first; i < index; ++i) text += without("///", lines[i]) + "\n";
  return text;
}

/// The structure that line `index` opens; without a type when it is no operator.
OpDeclaration declaration_at(const std::vector<std::string>& lines, size_t index) {
  OpDeclaration found;
  bool is_op = false;
  bool in_fields = true;
  for (size_t i = index + 1; i < lines.size() && lines[i] != "};"; ++i) {
    is_op = is_op || lines[i] == "  static const OpSchema& schema();";
    const bool has_field = lines[i].find(';') != std::string::npos && lines[i].find(")") == std::string::npos;
    in_fields = in_fields && (!lines[i].empty() || found.fields.find("Tensor") == std::string::npos);
    if (in_fields && !lines[i].empty() && (has_field || lines[i].find("//") != std::string::npos)) {
      found.fields += lines[i].substr(std::min<size_t>(2, lines[i].size())) + "\n";
    }
  }
  if (!is_op) return {};
  const std::string_view opening = lines[index];
  found.type = opening.substr(7, opening.find(' ', 7) - 7);
  found.text = comment_above(lines, index);
  return found;
}

}  // namespace

std::vector<OpHeader> read_op_headers(const fs::path& folder) {
  std::vector<OpHeader> headers;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".h") continue;
    const std::vector<std::string> lines = lines_of(entry.path());
    OpHeader header{.path = "core/ops/" + entry.path().filename().string(), .text = {}, .ops = {}};
    for (size_t i = 0; i < lines.size() && lines[i].starts_with("//"); ++i) header.text += without("//", lines[i]) + "\n";
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].starts_with("struct ") || !lines[i].ends_with("{")) continue;
      if (OpDeclaration op = declaration_at(lines, i); !op.type.empty()) header.ops.push_back(std::move(op));
    }
    if (!header.ops.empty()) headers.push_back(std::move(header));
  }
  std::ranges::sort(headers, {}, &OpHeader::path);
  return headers;
}

std::string schema_name(std::string_view type) {
  std::string name;
  for (const char c : type) {
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (upper && !name.empty()) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace foretoken
