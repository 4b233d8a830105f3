#include "backends/hip/kernels/device.h"

#include "backends/gpu/norm_kernels.inl"
