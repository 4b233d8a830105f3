#include "backends/hip/kernels/device.h"

#include "backends/gpu/moe_kernels.inl"
