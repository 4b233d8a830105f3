// The checkpoints that come with Foretoken, found without a flag.
#pragma once

#include <filesystem>
#include <string_view>

namespace foretoken {

/// The checkpoint that is used when none is named.
inline constexpr std::string_view kDefaultModel = "tiny-dense";

/// Folder of a bundled checkpoint. When FORETOKEN_MODELS is set, only that folder is searched; otherwise the data folder of the
/// installation that this code was loaded from, then the source tree of this build. Throws InvalidArgument that names every
/// place searched. Thread-safe as long as nobody changes the environment.
[[nodiscard]] std::filesystem::path bundled_model(std::string_view name = kDefaultModel);

}  // namespace foretoken
