#include "backends/hip/kernels/device.h"

#include "backends/gpu/attention_kernels.inl"
