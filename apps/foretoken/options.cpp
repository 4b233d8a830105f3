#include "apps/foretoken/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <charconv>
#include <cstring>
#include <numeric>

#include "core/error.h"

namespace foretoken::cli {
namespace {

namespace po = boost::program_options;

constexpr const char* kArgument = " argument";  // no option can be called that

po::options_description describe(const CommandSpec& command) {
  po::options_description description;
  description.add_options()("help,h", "")(kArgument, po::value<std::string>());
  for (const OptionSpec& option : command.options) {
    const std::string name(option.name);
    if (option.argument.empty()) {
      description.add_options()(name.c_str(), "");
    } else if (option.repeats) {
      description.add_options()(name.c_str(), po::value<std::vector<std::string>>());
    } else {
      description.add_options()(name.c_str(), po::value<std::string>());
    }
  }
  return description;
}

std::string with_suggestion(const std::string& word, const CommandSpec& command) {
  std::vector<std::string> known{"--help"};
  for (const OptionSpec& option : command.options) known.push_back("--" + std::string(option.name));
  const auto meant = nearest(word.substr(0, word.find('=')), known);
  return "unknown option '" + word + "'" + (meant ? ", did you mean '" + *meant + "'?" : "");
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// At the commas; an empty text is one empty item.
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    items.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

/// As one word of a shell's command.
std::string quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("-_./:,=+", c) != nullptr;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string range_text(int64_t min, int64_t max) {
  if (min == INT32_MIN) return "an integer";
  if (max == INT64_MAX || max == INT32_MAX) return "an integer of at least " + std::to_string(min);
  return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

}  // namespace

Options::Options(const CommandSpec& command, const std::vector<std::string>& words) : command_(command) {
  po::options_description description = describe(command);
  po::positional_options_description positional;
  if (!command.argument.empty()) positional.add(kArgument, 1);
  // No guessing of abbreviated names: a script must not change its meaning when an option is added.
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map parsed;
  try {
    po::store(po::command_line_parser(words).options(description).positional(positional).style(style).run(), parsed);
  } catch (const po::unknown_option& error) {
    fail(with_suggestion(error.get_option_name(), command));
  } catch (const po::too_many_positional_options_error&) {
    fail(command.argument.empty() ? "this command takes options only" : "more than one " + std::string(command.argument));
  } catch (const po::error& error) {
    fail(error.what());
  }
  wants_help_ = parsed.count("help") > 0;
  if (parsed.count(kArgument) > 0) argument_ = parsed[kArgument].as<std::string>();
  for (const OptionSpec& option : command.options) {
    const std::string name(option.name);
    if (parsed.count(name) == 0) continue;
    if (option.repeats) {
      values_[name] = parsed[name].as<std::vector<std::string>>();
    } else {
      values_[name] = {option.argument.empty() ? std::string() : parsed[name].as<std::string>()};
    }
  }
}

void Options::fail(const std::string& message) const { throw UsageError(message, std::string(command_.name)); }

const OptionSpec& Options::spec(std::string_view name) const {
  const auto found = std::ranges::find(command_.options, name, &OptionSpec::name);
  if (found == command_.options.end()) {
    throw Error(ErrorCode::kInternalError, "command " + std::string(command_.name) + " has no option --" + std::string(name));
  }
  return *found;
}

bool Options::has(std::string_view name) const { return values_.contains(spec(name).name); }

std::optional<std::string> Options::text(std::string_view name) const {
  const OptionSpec& option = spec(name);
  if (const auto found = values_.find(name); found != values_.end()) return found->second.front();
  if (option.default_value.empty()) return std::nullopt;
  return std::string(option.default_value);
}

std::vector<std::string> Options::all_texts(std::string_view name) const {
  const auto found = values_.find(spec(name).name);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::string Options::required_text(std::string_view name) const {
  const auto value = text(name);
  if (!value || value->empty()) fail("option --" + std::string(name) + " is required");
  return *value;
}

int64_t Options::integer(std::string_view name, int64_t min, int64_t max) const {
  const std::string value = required_text(name);
  const auto number = parse_number<int64_t>(value);
  if (!number || *number < min || *number > max) {
    fail("option --" + std::string(name) + ": expected " + range_text(min, max) + ", got '" + value + "'");
  }
  return *number;
}

std::vector<int64_t> Options::integers(std::string_view name, int64_t min, int64_t max) const {
  return parse_integers(name, required_text(name), min, max);
}

std::vector<std::vector<int64_t>> Options::integer_lists(std::string_view name, int64_t min, int64_t max) const {
  std::vector<std::vector<int64_t>> lists;
  for (const std::string& list : all_texts(name)) lists.push_back(parse_integers(name, list, min, max));
  return lists;
}

std::vector<int64_t> Options::parse_integers(std::string_view name, const std::string& list, int64_t min, int64_t max) const {
  std::vector<int64_t> numbers;
  for (const std::string& item : split(list)) {
    const auto number = parse_number<int64_t>(item);
    if (!number || *number < min || *number > max) {
      fail("option --" + std::string(name) + ": expected a list like 1,2,3, each item " + range_text(min, max) + ", got '" +
           item + "' as item " + std::to_string(numbers.size() + 1));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<double> Options::positive_numbers(std::string_view name) const {
  std::vector<double> numbers;
  for (const std::string& item : texts(name)) {
    const auto number = parse_number<double>(item);
    if (!number || !(*number > 0.0)) {
      fail("option --" + std::string(name) + ": expected a list like 1,2.5,inf, each item above 0, got '" + item + "' as item " +
           std::to_string(numbers.size() + 1));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

IntegerRange Options::integer_range(std::string_view name, int64_t min, int64_t max) const {
  const std::string value = required_text(name);
  const size_t colon = value.find(':');
  const auto low = parse_number<int64_t>(value.substr(0, colon));
  const auto high = colon == std::string::npos ? low : parse_number<int64_t>(value.substr(colon + 1));
  if (!low || !high || *low < min || *high > max || *low > *high) {
    fail("option --" + std::string(name) + ": expected N or LO:HI, " + range_text(min, max) + " and LO at most HI, got '" +
         value + "'");
  }
  return {.min = *low, .max = *high};
}

std::vector<std::string> Options::texts(std::string_view name) const { return split(required_text(name)); }

double Options::real(std::string_view name, double min, double max) const {
  const std::string value = required_text(name);
  const auto number = parse_number<double>(value);
  if (!number || !(*number >= min && *number <= max)) {
    fail(fmt::format("option --{}: expected a number from {} to {}, got '{}'", name, min, max, value));
  }
  return *number;
}

size_t Options::choice(std::string_view name, std::initializer_list<std::string_view> choices) const {
  std::string words;
  for (const std::string_view choice : choices) words.append(words.empty() ? "" : " ").append(choice);
  if (spec(name).values != words) {
    throw Error(ErrorCode::kInternalError, {.what = "an option is read with other values than its table has",
                                            .where = "--" + std::string(name),
                                            .expected = words,
                                            .got = std::string(spec(name).values)});
  }
  const std::string value = required_text(name);
  const auto* const found = std::ranges::find(choices, value);
  if (found == choices.end()) {
    std::string list;
    for (const std::string_view choice : choices) list.append(list.empty() ? "" : ", ").append(choice);
    fail("option --" + std::string(name) + ": expected one of " + list + ", got '" + value + "'");
  }
  return static_cast<size_t>(found - choices.begin());
}

std::string Options::command_line() const {
  std::string line = "foretoken " + std::string(command_.name);
  if (!argument_.empty()) line += " " + quoted(argument_);
  for (const OptionSpec& option : command_.options) {
    const auto found = values_.find(option.name);
    if (found == values_.end()) continue;
    for (const std::string& value : found->second) {
      line += " --" + std::string(option.name);
      if (!option.argument.empty()) line += " " + quoted(value);
    }
  }
  return line;
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    // Levenshtein distance, one row at a time.
    std::vector<size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = std::exchange(row[0], i);
      for (size_t j = 1; j <= candidate.size(); ++j) {
        const size_t substituted = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substituted}));
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace foretoken::cli
