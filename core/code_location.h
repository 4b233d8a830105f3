// Where the library's own code lies at run time: what belongs to it is found from there, wherever an installation was moved.
#pragma once

#include <filesystem>

namespace foretoken {

struct CodeLocation {
  std::filesystem::path folder;  // of the file that this code was loaded from; empty when the system does not say
  bool in_program = false;       // that file is the program, else a shared library
};

/// Where the code that was linked with this function lies. Thread-safe.
[[nodiscard]] CodeLocation code_location();

}  // namespace foretoken
