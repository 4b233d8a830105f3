#include "backends/hip/kernels/device.h"

#include "backends/gpu/quantize_kernels.inl"
