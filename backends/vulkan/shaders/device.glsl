// What every shader begins with: memory by address, number formats, reductions over logical warps and work groups.
//
// How a shader is written and listed
//   - NAME.comp begins with `#version 460`, includes this file, declares a structure that mirrors the one in backends/gpu/*_params.h
//     member by member (uint64_t for addresses, int64_t as such, uint for enumerations, uint64_t for the bits of a double; `out` is called `result`) and then
//     says `PARAMS(ThatStructure)`. Its members are `params.x` from there on. Whether they come as push constants or from memory is
//     the host's business: each shader is compiled for both.
//   - Thread t of its work group is `thread_index()`, not gl_LocalInvocationID.x; there are `kThreads` of them, which the host sets
//     (specialisation constant 0). 32 threads that follow one another are a logical warp (`kLanes`) whatever the size of the
//     device's subgroups. lane_*() and group_*() exchange values through shared memory where subgroups are smaller, so every thread
//     of the work group must reach each call, and leave a loop round one at the same time.
//   - gl_WorkGroupID counts over the whole grid; gl_NumWorkGroups does not (a large grid is cut into several dispatches): pass it.
//   - Where the C++ text says fmaf, write fma(); a result that must round as written is `precise`.
//   - Shared text lies in NAME.glsl. shaders/FAMILY.cmake lists the shaders of a family, one line per kernel with the macros that
//     make it (foretoken_vulkan_shader), and shaders_FAMILY.cpp gives each its parameters and threads; a new family is named in
//     CMakeLists.txt, shader_entry.h and shader_lists.cpp.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Numbers near 0, NaN and infinity are what IEEE 754 says. float_modes.h takes out what a device cannot promise.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4464], 4459, 32);  // DenormPreserve
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);  // SignedZeroInfNanPreserve

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint kThreads = 32;
layout(constant_id = 1) const uint kSubgroup = 32;

const uint kLanes = 32;
const uint kWarps = kThreads / kLanes;

#ifdef FORETOKEN_PARAMS_IN_MEMORY
#define PARAMS(Type)                                                                                        \
  layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer ParamsBlock { Type values; }; \
  layout(push_constant, scalar) uniform Pushed { ParamsBlock block; } pushed
#define params pushed.block.values
#else
#define PARAMS(Type) layout(push_constant, scalar) uniform Pushed { Type values; } pushed
#define params pushed.values
#endif

uint thread_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }
uint lane_index() { return thread_index() % kLanes; }
uint warp_index() { return thread_index() / kLanes; }

// Memory by address.
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8Ref { uint8_t value; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16Ref { uint16_t value; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32Ref { uint value; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U32x2Ref { uvec2 value; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer U32x4Ref { uvec4 value; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer I64Ref { int64_t value; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32Ref { float value; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer F32x4Ref { vec4 value; };

uint load_u8(uint64_t base, uint64_t index) { return uint(U8Ref(base + index).value); }
uint load_u16(uint64_t base, uint64_t index) { return uint(U16Ref(base + index * 2).value); }
uint load_u32(uint64_t base, uint64_t index) { return U32Ref(base + index * 4).value; }
int load_i32(uint64_t base, uint64_t index) { return int(U32Ref(base + index * 4).value); }
int64_t load_i64(uint64_t base, uint64_t index) { return I64Ref(base + index * 8).value; }
float load_f32(uint64_t base, uint64_t index) { return F32Ref(base + index * 4).value; }
void store_u8(uint64_t base, uint64_t index, uint value) { U8Ref(base + index).value = uint8_t(value); }
void store_u16(uint64_t base, uint64_t index, uint value) { U16Ref(base + index * 2).value = uint16_t(value); }
void store_u32(uint64_t base, uint64_t index, uint value) { U32Ref(base + index * 4).value = value; }
void store_i32(uint64_t base, uint64_t index, int value) { U32Ref(base + index * 4).value = uint(value); }
void store_f32(uint64_t base, uint64_t index, float value) { F32Ref(base + index * 4).value = value; }

#define kNan uintBitsToFloat(0x7fc00000u)
#define kInfinity uintBitsToFloat(0x7f800000u)

bool is_nan(float value) { return (floatBitsToUint(value) & 0x7fffffffu) > 0x7f800000u; }

float bf16_to_float(uint bits) { return uintBitsToFloat(bits << 16); }

// Nearest BF16, ties to even; a NaN stays a quiet NaN.
uint float_to_bf16(float value) {
  const uint bits = floatBitsToUint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x0040u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

uint float_to_bf16x2(float low, float high) { return float_to_bf16(low) | float_to_bf16(high) << 16; }

float e4m3_to_float(uint code) {
  const uint magnitude = code & 0x7fu;
  const float small = float(magnitude) * 0.001953125;  // steps of 2^-9
  const float value = magnitude < 8 ? small : uintBitsToFloat((magnitude << 20) + (120u << 23));
  const uint bits = magnitude == 0x7fu ? 0x7fc00000u : floatBitsToUint(value);
  return uintBitsToFloat(bits | (code & 0x80u) << 24);
}

// Nearest E4M3, ties to even, saturating at 448; every NaN is 0x7f.
uint float_to_e4m3(float value) {
  const uint bits = floatBitsToUint(value);
  const uint sign = bits >> 24 & 0x80u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fu;
  if (magnitude >= 0x43e00000u) return sign | 0x7eu;  // 448
  if (magnitude < 0x3c800000u) return sign | uint(roundEven(uintBitsToFloat(magnitude) * 512.0));  // steps of 2^-9
  const uint rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
  return sign | min((rounded >> 20) - (120u << 3), 0x7eu);
}

// Nearest E2M1, ties to the even code, saturating at 6; the sign of a negative value is kept, NaN gives +0.
uint float_to_e2m1(float value) {
  const float magnitude = abs(value);
  uint code = 0;
  code += magnitude > 0.25 ? 1 : 0;
  code += magnitude >= 0.75 ? 1 : 0;
  code += magnitude > 1.25 ? 1 : 0;
  code += magnitude >= 1.75 ? 1 : 0;
  code += magnitude > 2.5 ? 1 : 0;
  code += magnitude >= 3.5 ? 1 : 0;
  code += magnitude > 5.0 ? 1 : 0;
  const uint bits = floatBitsToUint(value);  // a comparison may take a subnormal number for 0
  return code | (bits > 0x80000000u && bits <= 0xff800000u ? 8u : 0u);
}

// The value of the E2M1 code in the lowest four bits.
float e2m1_to_float(uint code) {
  const float magnitude = uintBitsToFloat((0x7eu << 23) + ((code & 7u) << 22));  // 2^(e-1), with one bit of mantissa
  const float value = (code & 7u) < 2u ? float(code & 7u) * 0.5 : magnitude;
  return uintBitsToFloat(floatBitsToUint(value) | (code & 8u) << 28);
}

// One element of memory that holds float32 or BF16, and four of them where they begin at a multiple of four.
float load_float(uint64_t base, uint64_t index, uint is_bf16) {
  return is_bf16 != 0 ? bf16_to_float(load_u16(base, index)) : load_f32(base, index);
}
void store_float(uint64_t base, uint64_t index, float value, uint is_bf16) {
  if (is_bf16 != 0) {
    store_u16(base, index, float_to_bf16(value));
  } else {
    store_f32(base, index, value);
  }
}
vec4 bf16x4_to_floats(uvec2 two) {
  return uintBitsToFloat(uvec4(two.x << 16, two.x & 0xffff0000u, two.y << 16, two.y & 0xffff0000u));
}
vec4 load_four(uint64_t base, uint64_t index, uint is_bf16) {
  if (is_bf16 != 0) return bf16x4_to_floats(U32x2Ref(base + index * 2).value);
  return F32x4Ref(base + index * 4).value;
}
void store_four(uint64_t base, uint64_t index, vec4 four, uint is_bf16) {
  if (is_bf16 != 0) {
    U32x2Ref(base + index * 2).value = uvec2(float_to_bf16x2(four.x, four.y), float_to_bf16x2(four.z, four.w));
  } else {
    F32x4Ref(base + index * 4).value = four;
  }
}

// e^x within two units in the last place; exp() may be off by many where |x| is large.
float exponential(float x) {
  if (is_nan(x)) return x;
  const float bounded = clamp(x, -104.0, 89.0);
  const float n = roundEven(bounded * 1.44269504);
  precise const float high = fma(n, -0.693145752, bounded);  // ln 2 in two parts
  precise const float r = fma(n, -1.42860677e-6, high);
  precise float e = fma(r, 1.38888889e-3, 8.33333333e-3);
  e = fma(e, r, 4.16666667e-2);
  e = fma(e, r, 1.66666667e-1);
  e = fma(e, r, 0.5);
  e = fma(e, r, 1.0);
  e = fma(e, r, 1.0);
  return ldexp(ldexp(e, int(n) / 2), int(n) - int(n) / 2);  // in two steps, each within the range of exponents
}

float sigmoid(float x) { return 1.0 / (1.0 + exponential(-x)); }
float silu(float x) { return x / (1.0 + exponential(-x)); }
// log(1 + e^x): log() may be off by 2^-21 near 1, so log(1 + e) is 2 atanh(e / (2 + e)), by its series.
float softplus(float x) {
  const float e = exponential(-abs(x));
  const float s = e / (2.0 + e);
  const float ss = s * s;
  float series = fma(ss, 1.0 / 13.0, 1.0 / 11.0);
  series = fma(series, ss, 1.0 / 9.0);
  series = fma(series, ss, 1.0 / 7.0);
  series = fma(series, ss, 1.0 / 5.0);
  series = fma(series, ss, 1.0 / 3.0);
  series = fma(series, ss, 1.0);
  return max(x, 0.0) + 2.0 * s * series;
}

// Lanes. Where subgroups are smaller than a logical warp, each leaves its part here.
const uint kParts = kSubgroup < kLanes ? kThreads / kSubgroup : 1;
const uint kPartsOfWarp = kSubgroup < kLanes ? kLanes / kSubgroup : 1;
shared float lane_values[kParts];
shared int lane_indices[kParts];

uint first_part() { return gl_SubgroupID / kPartsOfWarp * kPartsOfWarp; }

void leave_part(float value) {
  barrier();
  if (gl_SubgroupInvocationID == 0) lane_values[gl_SubgroupID] = value;
  barrier();
}

float lane_sum(float value) {
  [[unroll]] for (uint mask = min(kSubgroup, kLanes) / 2; mask > 0; mask /= 2) value += subgroupShuffleXor(value, mask);
  if (kSubgroup < kLanes) {
    leave_part(value);
    value = 0.0;
    for (uint part = 0; part < kPartsOfWarp; ++part) value += lane_values[first_part() + part];
  }
  return value;
}

float lane_max(float value) {
  [[unroll]] for (uint mask = min(kSubgroup, kLanes) / 2; mask > 0; mask /= 2) {
    value = max(value, subgroupShuffleXor(value, mask));
  }
  if (kSubgroup < kLanes) {
    leave_part(value);
    for (uint part = 0; part < kPartsOfWarp; ++part) value = max(value, lane_values[first_part() + part]);
  }
  return value;
}

// A value and the lowest index that has it. NaN is below everything, and no candidate at all has index -1.
struct Candidate {
  float value;
  int index;
};

Candidate candidate_of(float value, int index) { return Candidate(value, is_nan(value) ? -1 : index); }

Candidate better(Candidate a, Candidate b) {
  if (b.index < 0) return a;
  if (a.index < 0) return b;
  if (a.value == b.value) {
    if (a.index < b.index) return a;
    return b;
  }
  if (a.value > b.value) return a;
  return b;
}

Candidate lane_best(Candidate candidate) {
  [[unroll]] for (uint mask = min(kSubgroup, kLanes) / 2; mask > 0; mask /= 2) {
    const Candidate other =
        Candidate(subgroupShuffleXor(candidate.value, mask), subgroupShuffleXor(candidate.index, mask));
    candidate = better(candidate, other);
  }
  if (kSubgroup < kLanes) {
    barrier();
    if (gl_SubgroupInvocationID == 0) {
      lane_values[gl_SubgroupID] = candidate.value;
      lane_indices[gl_SubgroupID] = candidate.index;
    }
    barrier();
    for (uint part = first_part(); part < first_part() + kPartsOfWarp; ++part) {
      candidate = better(candidate, Candidate(lane_values[part], lane_indices[part]));
    }
  }
  return candidate;
}

shared float group_values[kWarps];

// Sum over the work group; every thread gets it. The order is fixed.
float group_sum(float value) {
  value = lane_sum(value);
  barrier();
  if (lane_index() == 0) group_values[warp_index()] = value;
  barrier();
  float sum = 0.0;
  for (uint warp = 0; warp < kWarps; ++warp) sum += group_values[warp];
  return sum;
}
