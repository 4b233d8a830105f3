#include "backends/cuda/kernels/device.h"
#include "backends/gpu/sampling_kernels.inl"
