// Files that a command writes besides stdout.
#pragma once

#include <string>
#include <string_view>

namespace foretoken::cli {

/// Throws InvalidArgument unless a file can be made at `path`; what is there stays as it is. For commands that work long before
/// they write.
void check_writable(const std::string& path);

/// Writes `text` to `path`, in place of what was there: all of it, or nothing is left behind. Throws InvalidArgument (the file
/// cannot be made) and DeviceError (a full disk).
void write_file(const std::string& path, std::string_view text);

}  // namespace foretoken::cli
