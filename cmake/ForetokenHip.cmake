# Finds what the HIP backend is built with: sets FORETOKEN_WITH_HIP, or says in FORETOKEN_HIP_MISSING why it cannot be built.
#
# For AMD: a clang that knows every architecture of FORETOKEN_HIP_ARCHITECTURES, HIP's headers and its runtime library. A
# distribution's device libraries may lack the one that names an architecture; it is made here. For NVIDIA: nvcc and HIP's
# headers, which lie beside AMD's.
set(FORETOKEN_WITH_HIP OFF)
set(FORETOKEN_HIP_MISSING "")

# FORETOKEN_HIP_COMPILE is set too: the compiler and its options, up to those of one source.
function(foretoken_find_hip_amd)
  find_program(FORETOKEN_HIP_COMPILER NAMES amdclang++ clang++-20 clang++-19 HINTS /opt/rocm/bin /opt/rocm/llvm/bin
    DOC "The clang that compiles HIP kernels")
  find_library(FORETOKEN_HIP_LIBRARY amdhip64 HINTS /opt/rocm/lib DOC "The runtime of HIP")
  mark_as_advanced(FORETOKEN_HIP_COMPILER FORETOKEN_HIP_LIBRARY)
  if(NOT FORETOKEN_HIP_COMPILER OR NOT FORETOKEN_HIP_LIBRARY)
    set(FORETOKEN_HIP_MISSING "no amdclang++ or clang++ 19, or no libamdhip64, was found" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS "${FORETOKEN_HIP_INCLUDE}/hip/hip_version.h" lines REGEX "^#define HIP_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" version "${lines}")
  string(REPLACE ";" "." version "${version}")
  get_filename_component(root "${FORETOKEN_HIP_INCLUDE}" DIRECTORY)
  # -fno-slp-vectorize: pairs of products that are packed into one instruction need twice the registers.
  set(compile "${FORETOKEN_HIP_COMPILER}" -x hip -std=c++20 -O3 -fno-slp-vectorize -fPIC -fvisibility=hidden
    -ffp-contract=off -Wall --rocm-path=${root} --hip-version=${version})
  if(version VERSION_LESS 6)  # older runtimes load no newer code objects
    list(APPEND compile -mcode-object-version=4)
  endif()
  find_path(bitcode ocml.bc NO_CACHE HINTS ${root}/amdgcn/bitcode ${root}/lib/${CMAKE_LIBRARY_ARCHITECTURE}/amdgcn/bitcode)
  if(bitcode)
    foretoken_complete_device_libraries("${bitcode}" "${PROJECT_BINARY_DIR}/hip/bitcode")
    list(APPEND compile "--rocm-device-lib-path=${PROJECT_BINARY_DIR}/hip/bitcode")
  endif()
  foreach(architecture IN LISTS FORETOKEN_HIP_ARCHITECTURES)
    set(offload ${offload} --offload-arch=${architecture})
  endforeach()
  file(WRITE "${PROJECT_BINARY_DIR}/hip/probe.hip"
    "#include <hip/hip_runtime.h>\n__global__ void probe(float* x) { *x = __expf(*x); }\n")
  set(probe ${compile} ${offload} -c "${PROJECT_BINARY_DIR}/hip/probe.hip" -o "${PROJECT_BINARY_DIR}/hip/probe.o")
  if(NOT "${probe}" STREQUAL "${FORETOKEN_HIP_PROBED}")
    execute_process(COMMAND ${probe} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(failed)
      string(REGEX REPLACE "\n.*" "" output "${output}")
      set(FORETOKEN_HIP_MISSING "${FORETOKEN_HIP_COMPILER} does not compile for ${FORETOKEN_HIP_ARCHITECTURES}: ${output}"
        PARENT_SCOPE)
      return()
    endif()
    set(FORETOKEN_HIP_PROBED "${probe}" CACHE INTERNAL "The command that was found to compile kernels")
  endif()
  set(FORETOKEN_HIP_COMPILE ${compile} PARENT_SCOPE)
  set(FORETOKEN_WITH_HIP ON PARENT_SCOPE)
endfunction()

# Puts links to the device libraries of `from` into `to`, and makes those that name an architecture where they are missing: a
# constant, major * 1000 + minor * 100 + stepping.
function(foretoken_complete_device_libraries from to)
  file(MAKE_DIRECTORY "${to}")
  file(GLOB libraries "${from}/*.bc")
  foreach(library IN LISTS libraries)
    get_filename_component(name "${library}" NAME)
    file(CREATE_LINK "${library}" "${to}/${name}" SYMBOLIC)
  endforeach()
  foreach(architecture IN LISTS FORETOKEN_HIP_ARCHITECTURES)
    string(REGEX REPLACE "^gfx" "" name "${architecture}")
    if(EXISTS "${to}/oclc_isa_version_${name}.bc")
      continue()
    endif()
    string(REGEX MATCH "^(.+)(.)(.)$" matched "${name}")
    math(EXPR number "${CMAKE_MATCH_1} * 1000 + 0x${CMAKE_MATCH_2} * 100 + 0x${CMAKE_MATCH_3}")
    file(WRITE "${to}/${name}.ll" "target datalayout = \"e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-i64:64-v16:16\
-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7\"
target triple = \"amdgcn-amd-amdhsa\"
@__oclc_ISA_version = linkonce_odr protected local_unnamed_addr addrspace(4) constant i32 ${number}, align 4
")
    execute_process(COMMAND "${FORETOKEN_HIP_COMPILER}" -x ir -target amdgcn-amd-amdhsa -nogpulib -emit-llvm -c "${to}/${name}.ll"
      -o "${to}/oclc_isa_version_${name}.bc" ERROR_QUIET)  # where it fails, so does the probe, which says why
  endforeach()
endfunction()

function(foretoken_find_hip_nvidia)
  if(NOT FORETOKEN_WITH_CUDA)
    set(FORETOKEN_HIP_MISSING "HIP for NVIDIA is compiled by nvcc, and FORETOKEN_CUDA is off" PARENT_SCOPE)
    return()
  endif()
  # By itself: nvcc must not be given the whole folder of system headers.
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/hip/include")
  file(CREATE_LINK "${FORETOKEN_HIP_INCLUDE}/hip" "${PROJECT_BINARY_DIR}/hip/include/hip" SYMBOLIC)
  set(compile "${CMAKE_CUDA_COMPILER}" -x cu -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -Xcompiler=-fPIC
    -Xcompiler=-fvisibility=hidden --Wno-deprecated-gpu-targets -D__HIP_PLATFORM_NVIDIA__
    -include cuda.h -include "${PROJECT_SOURCE_DIR}/backends/hip/nvidia/cuda13.h" -isystem "${PROJECT_BINARY_DIR}/hip/include")
  foreach(architecture IN LISTS FORETOKEN_CUDA_ARCHITECTURES)
    string(REPLACE "sm_" "compute_" virtual "${architecture}")
    list(APPEND compile -gencode arch=${virtual},code=${architecture})
  endforeach()
  set(FORETOKEN_HIP_COMPILE ${compile} PARENT_SCOPE)
  set(FORETOKEN_WITH_HIP ON PARENT_SCOPE)
endfunction()

find_path(FORETOKEN_HIP_INCLUDE hip/hip_runtime.h HINTS /opt/rocm/include DOC "Where HIP's headers are")
mark_as_advanced(FORETOKEN_HIP_INCLUDE)
if(NOT FORETOKEN_HIP_INCLUDE)
  set(FORETOKEN_HIP_MISSING "hip/hip_runtime.h was not found")
elseif(FORETOKEN_HIP_PLATFORM STREQUAL "amd")
  foretoken_find_hip_amd()
else()
  foretoken_find_hip_nvidia()
endif()
