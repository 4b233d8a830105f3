#include "backends/cuda/kernels/device.h"
#include "backends/gpu/moe_kernels.inl"
