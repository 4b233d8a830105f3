#include "backends/hip/kernels/device.h"

#include "backends/gpu/sample_kernels.inl"
