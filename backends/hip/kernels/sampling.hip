#include "backends/hip/kernels/device.h"

#include "backends/gpu/sampling_kernels.inl"
