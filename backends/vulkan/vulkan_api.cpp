// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): how volk.h is asked for its definitions
#define VOLK_IMPLEMENTATION
#include "backends/vulkan/vulkan_api.h"
