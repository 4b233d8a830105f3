#include "backends/hip/kernels/device.h"

#include "backends/gpu/linear_combine_kernels.inl"
