#include "tests/unit/report/markup.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

namespace foretoken::test {
namespace {

class MarkupReader {
 public:
  explicit MarkupReader(std::string_view html) : rest_(html) {}

  Markup read() {
    if (rest_.starts_with("<!DOCTYPE html>")) rest_.remove_prefix(rest_.find('>') + 1);
    while (!rest_.empty() && markup_.error.empty()) {
      if (rest_.front() == '<') {
        read_tag();
      } else {
        read_text(take(rest_.find('<')));
      }
    }
    if (!open_.empty()) fail("never closed: " + open_.back());
    return std::move(markup_);
  }

 private:
  void fail(const std::string& what) {
    if (markup_.error.empty()) markup_.error = what;
  }

  std::string_view take(size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  void read_tag() {
    const size_t end = rest_.find('>');
    if (end == std::string_view::npos) return fail("a tag does not end");
    std::string_view tag = take(end + 1).substr(1);
    tag.remove_suffix(1);
    if (tag.starts_with('/')) {
      if (open_.empty() || open_.back() != tag.substr(1)) return fail("closed out of turn: " + std::string(tag));
      open_.pop_back();
      return;
    }
    const bool is_empty = tag.ends_with('/');
    if (is_empty) tag.remove_suffix(1);
    const std::string name(tag.substr(0, tag.find(' ')));
    markup_.elements.push_back(name);
    read_attributes(tag.substr(name.size()));
    if (is_empty) return;
    open_.push_back(name);
    if (name != "style") return;
    if (take(rest_.find("</style>")).find('<') != std::string_view::npos) fail("markup inside a style sheet");
  }

  void read_attributes(std::string_view text) {
    std::set<std::string> names;
    while (!text.empty()) {
      const size_t equals = text.find("=\"");
      const size_t end = equals == std::string_view::npos ? equals : text.find('"', equals + 2);
      if (!text.starts_with(' ') || end == std::string_view::npos)
        return fail("attributes are not readable:" + std::string(text));
      const std::string name(text.substr(1, equals - 1));
      const std::string value(text.substr(equals + 2, end - equals - 2));
      if (!names.insert(name).second) fail("given twice: " + name);
      if (value.find('<') != std::string::npos) fail("markup inside an attribute: " + value);
      static_cast<void>(resolved(value));
      if (name == "id") {
        if (std::ranges::find(markup_.ids, value) != markup_.ids.end()) fail("two elements have the id " + value);
        markup_.ids.push_back(value);
      }
      if (name == "href" || name == "src" || name == "xlink:href") markup_.links.push_back(value);
      text.remove_prefix(end + 1);
    }
  }

  void read_text(std::string_view text) { markup_.text += resolved(text); }

  std::string resolved(std::string_view text) {
    static constexpr std::array<std::pair<std::string_view, char>, 5> kReferences{
        {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}}};
    std::string out;
    while (!text.empty()) {
      if (text.front() != '&') {
        out += text.front();
        text.remove_prefix(1);
        continue;
      }
      const auto* const found =
          std::ranges::find_if(kReferences, [text](const auto& reference) { return text.starts_with(reference.first); });
      if (found == kReferences.end()) {
        fail("a bare ampersand: " + std::string(text.substr(0, 20)));
        return out;
      }
      out += found->second;
      text.remove_prefix(found->first.size());
    }
    return out;
  }

  std::string_view rest_;
  std::vector<std::string> open_;
  Markup markup_;
};

}  // namespace

Markup read_markup(std::string_view html) { return MarkupReader(html).read(); }

size_t count(const Markup& markup, std::string_view element) {
  return static_cast<size_t>(std::ranges::count(markup.elements, element));
}

}  // namespace foretoken::test
