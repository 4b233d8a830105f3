// Enough of a reader of HTML to tell a page that holds together from one that does not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretoken::test {

struct Markup {
  std::string error;                  // what is wrong with it first; empty: well-formed
  std::vector<std::string> elements;  // names, in order
  std::vector<std::string> ids;
  std::vector<std::string> links;  // values of href, src and xlink:href
  std::string text;                // outside of tags and <style>, references resolved
};

/// Every element must be closed, attributes quoted, each at most once, ids unique, and references known.
[[nodiscard]] Markup read_markup(std::string_view html);

[[nodiscard]] size_t count(const Markup& markup, std::string_view element);

}  // namespace foretoken::test
