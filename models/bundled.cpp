#include "models/bundled.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "foretoken_build_info.h"

namespace foretoken {
namespace {

std::vector<std::filesystem::path> model_folders() {
  if (const char* chosen = std::getenv("FORETOKEN_MODELS"); chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back((program.parent_path() / kInstalledModels).lexically_normal());
  folders.emplace_back(kSourceModels);
  return folders;
}

}  // namespace

std::filesystem::path bundled_model(std::string_view name) {
  std::string searched;
  for (const std::filesystem::path& folder : model_folders()) {
    std::error_code error;
    if (std::filesystem::is_regular_file(folder / name / "config.json", error)) return folder / name;
    searched += (searched.empty() ? "" : ", ") + folder.string();
  }
  throw Error(ErrorCode::kInvalidArgument, {.what = fmt::format("no bundled checkpoint '{}'", name),
                                            .where = "FORETOKEN_MODELS, installation, source tree",
                                            .expected = "a folder of that name with a config.json",
                                            .got = "none in " + searched});
}

}  // namespace foretoken
