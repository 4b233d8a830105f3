#include "apps/foretoken/report/page.h"

#include <utility>

#include "apps/foretoken/report/html.h"
#include "apps/foretoken/report/page_style.h"

namespace foretoken::cli {

void Page::heading(std::string_view text) { body_ += element("h2", text) + '\n'; }

void Page::paragraph(std::string_view text) { body_ += element("p", text) + '\n'; }

void Page::code(std::string_view text) { body_ += "<pre>" + element("code", text) + "</pre>\n"; }

void Page::table(const PageTable& table) {
  // A table that is wider than the screen scrolls by itself, by keyboard too.
  body_ += R"(<div class="scroll" role="region" tabindex="0" aria-label=")" + escaped(table.caption) + "\">\n<table>\n";
  body_ += element("caption", table.caption) + "\n<thead><tr>";
  for (const std::string& cell : table.header) body_ += element("th", cell, "scope=\"col\"");
  body_ += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    body_ += "<tr>" + element("th", row.front(), "scope=\"row\"");
    for (size_t i = 1; i < row.size(); ++i) body_ += element("td", row[i]);
    body_ += "</tr>\n";
  }
  body_ += "</tbody>\n</table>\n</div>\n";
}

void Page::definitions(const std::vector<std::pair<std::string, std::string>>& terms) {
  body_ += "<dl>\n";
  for (const auto& [term, meaning] : terms) body_ += element("dt", term) + element("dd", meaning) + '\n';
  body_ += "</dl>\n";
}

void Page::figures(const std::vector<std::string>& figures) {
  body_ += "<div class=\"figures\">\n";
  for (const std::string& figure : figures) body_ += figure;
  body_ += "</div>\n";
}

std::string Page::to_html() const {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
  out += "<meta name=\"color-scheme\" content=\"light dark\"/>\n";
  out += element("title", title_) + "\n<style>" + std::string(kPageStyle) + "</style>\n</head>\n<body>\n<main>\n";
  return out + element("h1", title_) + '\n' + body_ + "</main>\n</body>\n</html>\n";
}

}  // namespace foretoken::cli
