#include "apps/foretoken/help_texts.h"

#include <fmt/format.h>

namespace foretoken::cli {

std::string words_of(const OptionSpec& option) {
  return fmt::format("--{}{}{}", option.name, option.argument.empty() ? "" : " ", option.argument);
}

std::string help_of(const OptionSpec& option) {
  if (option.default_value.empty()) return std::string(option.help);
  return fmt::format("{} (default: {})", option.help, option.default_value);
}

std::string usage_of(const CommandSpec& command) {
  return fmt::format("foretoken {}{}{}{}", command.name, command.argument.empty() ? "" : " ", command.argument,
                     command.options.empty() ? "" : " [options]");
}

}  // namespace foretoken::cli
