#include "backends/hip/kernels/device.h"

#include "backends/gpu/delta_net_kernels.inl"
