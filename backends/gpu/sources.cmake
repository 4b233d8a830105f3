# What each GPU backend whose kernels are C++ functions compiles for itself: host code over its gpu_runtime.h, and what needs
# no runtime.
set(FORETOKEN_GPU_HOST_SOURCES
  host/backend.cpp
  host/buffer.cpp
  host/command_list.cpp
  host/devices.cpp
  host/error.cpp
  host/event.cpp
  host/kernel_module.cpp
  host/program.cpp
  host/provider.cpp
  host/staging.cpp
  host/stream.cpp)
set(FORETOKEN_GPU_LAUNCH_SOURCES
  host/log_warning.cpp
  kernel_lists.cpp
  ops/attention.cpp
  ops/delta_net.cpp
  ops/linear.cpp
  ops/moe.cpp
  ops/norm.cpp
  ops/portable.cpp
  ops/quantize.cpp
  ops/sample.cpp
  ops/sampling.cpp
  ops/weights.cpp)
list(TRANSFORM FORETOKEN_GPU_HOST_SOURCES PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
list(TRANSFORM FORETOKEN_GPU_LAUNCH_SOURCES PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
