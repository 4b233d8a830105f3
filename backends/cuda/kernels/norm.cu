#include "backends/cuda/kernels/device.h"
#include "backends/gpu/norm_kernels.inl"
