// Included after CUDA's own headers and before all others where HIP is compiled for NVIDIA: HIP's headers for that platform wrap
// calls and members that CUDA 13 no longer has. Nothing here uses those wrappers; they need only be compiled.
#pragma once

namespace foretoken::hip::removed {

/// Members that cudaDeviceProp has lost.
struct DeviceProp : cudaDeviceProp {
  int clockRate = 0;
  int computeMode = 0;
  int cooperativeMultiDeviceLaunch = 0;
  int kernelExecTimeoutEnabled = 0;
  int memoryClockRate = 0;
};

template <class... Arguments>
cudaError_t runtime_call(Arguments&&... /*arguments*/) {
  return cudaErrorNotSupported;
}

template <class... Arguments>
CUresult driver_call(Arguments&&... /*arguments*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace foretoken::hip::removed

template <class T, int num_dimensions = 1, cudaTextureReadMode mode = cudaReadModeElementType>
struct texture;

#undef cuCtxCreate
#define cuCtxCreate foretoken::hip::removed::driver_call
#define cudaBindTexture foretoken::hip::removed::runtime_call
#define cudaBindTexture2D foretoken::hip::removed::runtime_call
#define cudaBindTextureToArray foretoken::hip::removed::runtime_call
#define cudaGetTextureAlignmentOffset foretoken::hip::removed::runtime_call
#define cudaGraphAddDependencies foretoken::hip::removed::runtime_call
#define cudaGraphGetEdges foretoken::hip::removed::runtime_call
#define cudaGraphNodeGetDependencies foretoken::hip::removed::runtime_call
#define cudaGraphNodeGetDependentNodes foretoken::hip::removed::runtime_call
#define cudaGraphRemoveDependencies foretoken::hip::removed::runtime_call
#define cudaLaunchCooperativeKernelMultiDevice foretoken::hip::removed::runtime_call
#define cudaMemAdvise foretoken::hip::removed::runtime_call
#define cudaMemPrefetchAsync foretoken::hip::removed::runtime_call
#define cudaStreamGetCaptureInfo_v2 foretoken::hip::removed::runtime_call
#define cudaStreamUpdateCaptureDependencies foretoken::hip::removed::runtime_call
#define cudaUnbindTexture foretoken::hip::removed::runtime_call
#define cudaDevAttrCooperativeMultiDeviceLaunch cudaDevAttrCooperativeLaunch
#define cudaDeviceProp foretoken::hip::removed::DeviceProp
