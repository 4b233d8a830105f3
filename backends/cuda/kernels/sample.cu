#include "backends/cuda/kernels/device.h"
#include "backends/gpu/sample_kernels.inl"
