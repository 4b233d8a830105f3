#include "foretoken/status.h"
#include "foretoken_build_info.h"

const char* foretoken_version(void) { return foretoken::kVersion.data(); }
