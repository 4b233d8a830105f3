// How a kernel reads its weight format, FORMAT. A lane takes kVector consecutive elements of a row at a time: 16 bytes of codes,
// 8 of NVFP4, so that the lanes' activations lie closer together and one scale is enough. decode() gives elements in units of
// 1 / kDecodeFactor, which the scales make up for.
#ifndef FORETOKEN_WEIGHT_FORMATS_GLSL
#define FORETOKEN_WEIGHT_FORMATS_GLSL

#include "backends/vulkan/shaders/linear_params.glsl"

#define FORMAT_F32 0
#define FORMAT_BF16 1
#define FORMAT_FP8_ROW 2
#define FORMAT_FP8_BLOCK 3
#define FORMAT_NVFP4 4

#if FORMAT == FORMAT_F32
const uint kVector = 4;
const uint kPart = 4;  // elements decoded together
#elif FORMAT == FORMAT_BF16
const uint kVector = 8;
const uint kPart = 8;
#elif FORMAT == FORMAT_NVFP4
const uint kVector = 16;
const uint kPart = 8;
#else
const uint kVector = 16;
const uint kPart = 8;
#endif

// Whether the next vectors are asked for before one is multiplied: with more rows, and with FP8, the registers for it cost more
// than it gains on an H200.
#define PREFETCH (ROWS == 1 && (FORMAT == FORMAT_BF16 || FORMAT == FORMAT_NVFP4))

#if FORMAT == FORMAT_FP8_BLOCK || FORMAT == FORMAT_NVFP4
#define SCALES_INSIDE 1  // a scale changes along the row
#else
#define SCALES_INSIDE 0
#endif

// Bytes of `elements` codes.
uint64_t code_bytes(uint64_t elements) {
#if FORMAT == FORMAT_NVFP4
  return elements / 2;
#else
  return elements * (16 / kVector);
#endif
}

uvec4 load_codes(uint64_t address) {
#if FORMAT == FORMAT_NVFP4
  return uvec4(U32x2Ref(address).value, 0, 0);
#else
  return U32x4Ref(address).value;
#endif
}

// The first `count` bytes one by one, then zeros: a code of 0 is the number 0 in every format.
uvec4 load_code_bytes(uint64_t address, uint count) {
  uvec4 codes = uvec4(0);
  for (uint i = 0; i < count; ++i) codes[i / 4] |= load_u8(address, i) << (i % 4 * 8);
  return codes;
}

#if FORMAT == FORMAT_F32
void decode(uvec4 codes, uint part, out float values[kPart]) {
  [[unroll]] for (uint i = 0; i < 4; ++i) values[i] = uintBitsToFloat(codes[i]);
}
#elif FORMAT == FORMAT_BF16
void decode(uvec4 codes, uint part, out float values[kPart]) {
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    values[2 * i] = uintBitsToFloat(codes[i] << 16);
    values[2 * i + 1] = uintBitsToFloat(codes[i] & 0xffff0000u);
  }
}
#elif FORMAT == FORMAT_NVFP4
// A code placed at the top of a half's mantissa and the bottom of its exponent is its value times 2^-14.
const float kDecodeFactor = 16384.0;
const float kScaleFactor = 256.0;
const float kLargestScale = 448.0 / kScaleFactor;
void decode(uvec4 codes, uint part, out float values[kPart]) {
  const uint word = codes[part];
  // Bytes that are upper bytes of halves: the codes with even and those with odd indices.
  const uint even = (word << 1 & 0x0e0e0e0eu) | (word << 4 & 0x80808080u);
  const uint odd = (word >> 3 & 0x0e0e0e0eu) | (word & 0x80808080u);
  const vec2 values_04 = unpackHalf2x16(even << 8 & 0xff00ff00u);
  const vec2 values_15 = unpackHalf2x16(odd << 8 & 0xff00ff00u);
  const vec2 values_26 = unpackHalf2x16(even & 0xff00ff00u);
  const vec2 values_37 = unpackHalf2x16(odd & 0xff00ff00u);
  values[0] = values_04.x;
  values[1] = values_15.x;
  values[2] = values_26.x;
  values[3] = values_37.x;
  values[4] = values_04.y;
  values[5] = values_15.y;
  values[6] = values_26.y;
  values[7] = values_37.y;
}
#else
// E4M3 as a half with its exponent unchanged: the value times 2^-8, subnormal ones too. nan_codes() sees NaN.
const float kDecodeFactor = 256.0;
void decode(uvec4 codes, uint part, out float values[kPart]) {
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    const uint odd = codes[2 * part + i];
    const uint even = odd << 8;
    const vec2 first = unpackHalf2x16((even & 0x80008000u) | (even >> 1 & 0x3f803f80u));
    const vec2 second = unpackHalf2x16((odd & 0x80008000u) | (odd >> 1 & 0x3f803f80u));
    values[4 * i] = first.x;
    values[4 * i + 1] = second.x;
    values[4 * i + 2] = first.y;
    values[4 * i + 3] = second.y;
  }
}
#endif

#if FORMAT == FORMAT_FP8_ROW || FORMAT == FORMAT_FP8_BLOCK
#define CODES_MAY_BE_NAN 1
#else
#define CODES_MAY_BE_NAN 0
#endif
// Not 0 where one of the codes is NaN.
uint nan_codes(uvec4 codes) {
  const uvec4 next = (codes & 0x7f7f7f7fu) + 0x01010101u;
  return (next.x | next.y | next.z | next.w) & 0x80808080u;
}

// Where the scales of row n start that change along the row: one for a vector, or for more than one.
uint64_t row_scales(const WeightParams w, uint n) {
#if FORMAT == FORMAT_FP8_BLOCK
  return w.scale + uint64_t(n >> w.block_shift) * w.scale_columns * (w.scale_is_bf16 != 0 ? 2 : 4);
#elif FORMAT == FORMAT_NVFP4
  return w.scale + uint64_t(n) * w.scale_columns;
#else
  return 0;
#endif
}

// The scale at element k of a row whose scales start `offset` bytes (of NVFP4) after `base`, as it is stored, and its value for
// what decode() gives: of NVFP4 in units of 1 / kScaleFactor, as all of a scale that is cheaper once for a row is part of
// outer_scale(). A NaN of NVFP4 has a value above kLargestScale.
uint load_scale(uint64_t base, uint offset, uint k, uint is_bf16) {
#if FORMAT == FORMAT_FP8_BLOCK
  return is_bf16 != 0 ? load_u16(base, k / 128) << 16 : load_u32(base, k / 128);
#elif FORMAT == FORMAT_NVFP4
  return load_u8(base, offset + k / 16);
#else
  return 0;
#endif
}
float scale_value(uint stored) {
#if FORMAT == FORMAT_FP8_BLOCK
  return uintBitsToFloat(stored) * kDecodeFactor;
#elif FORMAT == FORMAT_NVFP4
  const uint moved = stored << 7;  // E4M3 as a half is the value times 2^-8, once the sign is a bit higher
  return unpackHalf2x16(moved + (moved & 0x4000u)).x;
#else
  return 1.0;
#endif
}

// The scale of all of row n, likewise.
float outer_scale(const WeightParams w, uint n) {
#if FORMAT == FORMAT_FP8_ROW
  return load_float(w.scale, n * w.scale_columns, w.scale_is_bf16) * kDecodeFactor;
#elif FORMAT == FORMAT_NVFP4
  return load_f32(w.global_scale, n / w.rows_per_global) * (kScaleFactor * kDecodeFactor);
#else
  return 1.0;
#endif
}

#endif
