#include "foretoken/status.h"
#include "foretoken_build_info.h"

const char* foretoken_version() { return foretoken::kVersion.data(); }
