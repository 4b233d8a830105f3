#include "models/bundled.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "core/code_location.h"
#include "core/error.h"
#include "foretoken_build_info.h"

namespace foretoken {
namespace {

std::vector<std::filesystem::path> model_folders() {
  if (const char* chosen = std::getenv("FORETOKEN_MODELS"); chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::filesystem::path> folders;
  const CodeLocation code = code_location();
  if (!code.folder.empty()) {
    folders.push_back((code.folder / (code.in_program ? kModelsFromProgram : kModelsFromLibrary)).lexically_normal());
  }
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
