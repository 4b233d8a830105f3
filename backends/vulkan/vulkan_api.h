// The Vulkan functions, which volk finds while the program runs: without a Vulkan loader this module still loads.
#pragma once

#include <volk.h>
