#include "backends/cuda/kernels/device.h"
#include "backends/gpu/attention_kernels.inl"
