// The options of one call of a command: parsed by Boost.Program_options against the command's table, read with checks.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "apps/foretoken/command.h"

namespace foretoken::cli {

/// The command line is wrong; `command` is what to ask for help about.
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& message, std::string command = {})
      : std::runtime_error(message), command_(std::move(command)) {}
  [[nodiscard]] const std::string& command() const { return command_; }

 private:
  std::string command_;
};

/// Both ends belong to it.
struct IntegerRange {
  int64_t min = 0;
  int64_t max = 0;
};

/// Readers throw UsageError that names the option, what it takes and what was given; InternalError for a name that is not in the
/// command's table.
class Options {
 public:
  /// Throws UsageError: unknown options, repeated ones that may not be, a missing value, too many arguments.
  Options(const CommandSpec& command, const std::vector<std::string>& words);

  [[nodiscard]] bool wants_help() const { return wants_help_; }
  /// Whether the option was given; its default does not count.
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const { return has(name); }
  /// The given value or the default, else nothing. Of an option that repeats, the first.
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  /// All values of an option that repeats.
  [[nodiscard]] std::vector<std::string> all_texts(std::string_view name) const;
  [[nodiscard]] std::string required_text(std::string_view name) const;
  [[nodiscard]] int64_t integer(std::string_view name, int64_t min, int64_t max) const;
  /// Comma-separated integers, at least one.
  [[nodiscard]] std::vector<int64_t> integers(std::string_view name, int64_t min, int64_t max) const;
  /// The same of each value of an option that repeats.
  [[nodiscard]] std::vector<std::vector<int64_t>> integer_lists(std::string_view name, int64_t min, int64_t max) const;
  /// Comma-separated numbers above 0, at least one; "inf" is one.
  [[nodiscard]] std::vector<double> positive_numbers(std::string_view name) const;
  /// "LO:HI", or "N" for both.
  [[nodiscard]] IntegerRange integer_range(std::string_view name, int64_t min, int64_t max) const;
  /// Comma-separated texts, at least one; items may be empty.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name, double min, double max) const;
  /// "on" or "off".
  [[nodiscard]] bool is_on(std::string_view name) const { return choice(name, {"off", "on"}) == 1; }
  /// Index of the value in `choices`, which are the values of the option's table.
  [[nodiscard]] size_t choice(std::string_view name, std::initializer_list<std::string_view> choices) const;
  /// What stands without an option; empty when nothing does.
  [[nodiscard]] const std::string& argument() const { return argument_; }

  /// "foretoken bench serve --rate 2", quoted for a shell, with the options in the order of the command's table.
  [[nodiscard]] std::string command_line() const;

  [[noreturn]] void fail(const std::string& message) const;

 private:
  [[nodiscard]] const OptionSpec& spec(std::string_view name) const;
  [[nodiscard]] std::vector<int64_t> parse_integers(std::string_view name, const std::string& list, int64_t min,
                                                    int64_t max) const;

  const CommandSpec& command_;
  bool wants_help_ = false;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;  // at least one of each
  std::string argument_;
};

/// The word of `known` that a mistyped one most likely meant; nothing when none is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace foretoken::cli
