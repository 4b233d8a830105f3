// Text inside HTML pages.
#pragma once

#include <string>
#include <string_view>

namespace foretoken::cli {

/// `text` as content of an element or of a quoted attribute, whatever bytes it has: markup characters as references, control
/// characters and ill-formed UTF-8 as U+FFFD.
[[nodiscard]] std::string escaped(std::string_view text);

/// "<name attributes>content</name>" of escaped `text`; `attributes` as written.
[[nodiscard]] std::string element(std::string_view name, std::string_view text, std::string_view attributes = {});

}  // namespace foretoken::cli
