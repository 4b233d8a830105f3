#include "core/code_location.h"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace foretoken {

CodeLocation code_location() {
  Dl_info info{};
  link_map* map = nullptr;
  const bool known =
      dladdr1(reinterpret_cast<void*>(&code_location), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 &&
      map != nullptr;
  const bool in_program = !known || map->l_name == nullptr || *map->l_name == '\0';
  std::error_code error;
  // The name of the program that the loader knows is that of the command, perhaps without a folder.
  const std::filesystem::path file = std::filesystem::canonical(in_program ? "/proc/self/exe" : map->l_name, error);
  return {.folder = error ? std::filesystem::path{} : file.parent_path(), .in_program = in_program};
}

}  // namespace foretoken
