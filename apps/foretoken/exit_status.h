// What the tool's exit status means.
#pragma once

namespace foretoken::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;    // an operation failed; stderr says why
inline constexpr int kExitUsage = 2;      // the command line is wrong
inline constexpr int kExitDifferent = 3;  // results that must be identical are not

}  // namespace foretoken::cli
