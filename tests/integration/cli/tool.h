// Runs the tool as a process and catches what it says; checkpoints that are broken on purpose.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace foretoken::test {

struct ToolRun {
  int status = -1;  // exit status; 128 + signal when it was killed
  std::string out;
  std::string err;

  /// stdout as one JSON object on its lines and nothing else. Throws on anything else.
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out); }
};

struct ToolInput {
  std::string stdin_text{};
  std::map<std::string, std::string> environment{};  // on top of the test's own
};

/// Runs the built tool with `words`.
[[nodiscard]] ToolRun run_tool(const std::vector<std::string>& words, const ToolInput& input = {});

/// A folder of its own, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// tests/data/NAME.
[[nodiscard]] std::filesystem::path bundled(const std::string& name);
[[nodiscard]] std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);
/// Copies tests/data/NAME into `folder`; returns the copy.
std::filesystem::path copy_checkpoint(const std::string& name, const std::filesystem::path& folder);
/// tiny-dense without the tensors of its draft head.
std::filesystem::path checkpoint_without_head(const std::filesystem::path& folder);
/// "7,7,7": `count` token ids.
[[nodiscard]] std::string repeated_ids(size_t count);

}  // namespace foretoken::test
