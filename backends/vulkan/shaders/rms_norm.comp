#version 460
#include "backends/vulkan/shaders/device.glsl"
#include "backends/vulkan/shaders/norm.glsl"

PARAMS(RmsNormParams);

void main() { norm_row(params, gl_WorkGroupID.x, true); }
