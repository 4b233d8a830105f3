#include "models/checkpoint_json.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.h"

namespace foretoken {
namespace {

constexpr int kMaxDepth = 32;
constexpr uintmax_t kMaxFileBytes = 100'000'000;

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& origin) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;
  std::string last_key;
  const auto watch = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth > kMaxDepth) {
      throw Error(ErrorCode::kFormatError,
                  {.what = "nested too deeply", .where = origin, .expected = "at most " + std::to_string(kMaxDepth) + " levels"});
    }
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      last_key = parsed.get<std::string>();
      if (!keys.back().insert(last_key).second) {
        throw Error(ErrorCode::kFormatError, {.what = "key `" + last_key + "` appears twice in one object", .where = origin});
      }
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    std::string_view reason = error.what();
    if (const size_t bracket = reason.find("] "); bracket != std::string_view::npos) reason.remove_prefix(bracket + 2);
    throw Error(ErrorCode::kFormatError, {.what = "not valid JSON" + (last_key.empty() ? "" : " after key `" + last_key + "`") +
                                                  ": " + std::string(reason),
                                          .where = origin});
  }
}

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "no such file", .where = path.string()});
  }
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > kMaxFileBytes) {
    throw Error(ErrorCode::kFormatError, {.what = "the file is too large",
                                          .where = path.string(),
                                          .expected = "at most " + std::to_string(kMaxFileBytes) + " bytes",
                                          .got = std::to_string(bytes)});
  }
  std::string text(error ? 0 : static_cast<size_t>(bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  if (error || !file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    throw Error(ErrorCode::kInvalidArgument, {.what = "cannot read the file", .where = path.string()});
  }
  return text;
}

}  // namespace foretoken
