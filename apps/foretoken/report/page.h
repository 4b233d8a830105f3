// A self-contained HTML page: text, tables and figures one below the other, in light and dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretoken::cli {

struct PageTable {
  std::string caption;
  std::vector<std::string> header;             // of all columns
  std::vector<std::vector<std::string>> rows;  // as many cells; the first one names the row
};

/// Texts are escaped here; figures come as HTML.
class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// Text of a terminal.
  void code(std::string_view text);
  void table(const PageTable& table);
  /// Terms and what they mean.
  void definitions(const std::vector<std::pair<std::string, std::string>>& terms);
  /// Side by side where there is room.
  void figures(const std::vector<std::string>& figures);

  [[nodiscard]] std::string to_html() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace foretoken::cli
