#include "tests/integration/cli/tool.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "models/safetensors.h"
#include "models/safetensors_writer.h"

namespace foretoken::test {
namespace {

/// In the child: standard streams from and to files, then the tool.
[[noreturn]] void become_tool(const std::vector<std::string>& words, const ToolInput& input,
                              const std::filesystem::path& folder) {
  const auto attach = [&folder](const char* name, int flags, int descriptor) {
    const int file = open((folder / name).c_str(), flags, 0600);
    if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
  };
  attach("stdin", O_RDONLY, STDIN_FILENO);
  attach("stdout", O_WRONLY | O_CREAT, STDOUT_FILENO);
  attach("stderr", O_WRONLY | O_CREAT, STDERR_FILENO);
  for (const auto& [name, value] : input.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> all{FORETOKEN_TOOL};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  arguments.reserve(all.size() + 1);
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(FORETOKEN_TOOL, arguments.data());
  _exit(127);
}

}  // namespace

ToolRun run_tool(const std::vector<std::string>& words, const ToolInput& input) {
  const TemporaryFolder folder;
  write_file(folder.path() / "stdin", input.stdin_text);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become_tool(words, input, folder.path());
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read_file(folder.path() / "stdout"),
          .err = read_file(folder.path() / "stderr")};
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "foretoken-cli-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::filesystem::path bundled(const std::string& name) { return std::filesystem::path(FORETOKEN_TEST_DATA) / name; }

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

std::filesystem::path copy_checkpoint(const std::string& name, const std::filesystem::path& folder) {
  const std::filesystem::path copy = folder / name;
  std::filesystem::copy(bundled(name), copy, std::filesystem::copy_options::recursive);
  std::filesystem::permissions(copy, std::filesystem::perms::owner_all, std::filesystem::perm_options::add);
  return copy;
}

std::filesystem::path checkpoint_without_head(const std::filesystem::path& folder) {
  std::filesystem::path copy = copy_checkpoint("tiny-dense", folder);
  const SafetensorsFile source(bundled("tiny-dense") / "model.safetensors");
  std::vector<SafetensorsTensor> kept;
  for (const SafetensorsEntry& entry : source.entries()) {
    if (entry.name.starts_with("mtp.") || !entry.dtype) continue;
    kept.push_back({.name = entry.name, .dtype = *entry.dtype, .shape = entry.shape});
  }
  SafetensorsWriter writer(copy / "model.safetensors", kept);
  for (const SafetensorsTensor& tensor : kept) writer.append(source.bytes(*source.find(tensor.name)));
  writer.finish();
  return copy;
}

std::string repeated_ids(size_t count) {
  std::string list = "7";
  for (size_t i = 1; i < count; ++i) list += ",7";
  return list;
}

}  // namespace foretoken::test
