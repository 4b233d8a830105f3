// How a kernel reads each weight format. A lane takes kVector consecutive elements of a row at a time: 16 bytes of codes. An
// element is what decode gives, times the inner and the outer scale; powers of two that are cheaper elsewhere are part of either.
// Formats with kScalesInside give the inner scale of (row n, element k), and as loads that can be under way early: load_scales is
// what memory has for the vector at k, loaded_scale what that means for one of its parts.
#pragma once

#include "backends/gpu/linear_params.h"
#include "backends/gpu/numeric.inl"

namespace foretoken::gpu {

/// Codes of one vector.
struct Codes {
  uint32_t word[4];
};

FORETOKEN_DEVICE Codes load_codes(uint64_t address) {
  const uint4 four = __ldg(pointer<const uint4>(address));
  return {{four.x, four.y, four.z, four.w}};
}

/// The first `count` bytes one by one, then zeros: a code of 0 is the number 0 in every format.
FORETOKEN_DEVICE Codes load_code_bytes(uint64_t address, uint32_t count) {
  Codes codes{};
  for (uint32_t i = 0; i < count; ++i)
    codes.word[i / 4] |= static_cast<uint32_t>(pointer<const uint8_t>(address)[i]) << (i % 4 * 8);
  return codes;
}

struct F32Format {
  static constexpr uint32_t kVector = 4;
  static constexpr uint32_t kPart = 4;  // elements decoded together
  static constexpr bool kScalesInside = false;
  FORETOKEN_DEVICE static uint64_t bytes(uint64_t elements) { return elements * 4; }
  FORETOKEN_DEVICE static void decode(const Codes& codes, uint32_t /*part*/, float (&values)[kPart]) {
    for (uint32_t i = 0; i < kPart; ++i) values[i] = bits_to_float(codes.word[i]);
  }
  FORETOKEN_DEVICE static float inner_scale(const WeightParams&, uint64_t, uint32_t, uint32_t) { return 1.0F; }
  FORETOKEN_DEVICE static float outer_scale(const WeightParams&, uint64_t, uint64_t, uint32_t) { return 1.0F; }
};

struct Bf16Format {
  static constexpr uint32_t kVector = 8;
  static constexpr uint32_t kPart = 8;
  static constexpr bool kScalesInside = false;
  FORETOKEN_DEVICE static uint64_t bytes(uint64_t elements) { return elements * 2; }
  FORETOKEN_DEVICE static void decode(const Codes& codes, uint32_t /*part*/, float (&values)[kPart]) {
    for (uint32_t i = 0; i < 4; ++i) {
      values[2 * i] = bits_to_float(codes.word[i] << 16);
      values[2 * i + 1] = bits_to_float(codes.word[i] & 0xffff0000U);
    }
  }
  FORETOKEN_DEVICE static float inner_scale(const WeightParams&, uint64_t, uint32_t, uint32_t) { return 1.0F; }
  FORETOKEN_DEVICE static float outer_scale(const WeightParams&, uint64_t, uint64_t, uint32_t) { return 1.0F; }
};

struct Fp8Format {
  static constexpr uint32_t kVector = 16;
  static constexpr uint32_t kPart = 8;
  FORETOKEN_DEVICE static uint64_t bytes(uint64_t elements) { return elements; }
  FORETOKEN_DEVICE static void decode(const Codes& codes, uint32_t part, float (&values)[kPart]) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      float four[4];
      decode_weights(codes.word[2 * part + i], four);
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) values[4 * i + j] = four[j];
    }
  }
};

struct Fp8RowFormat : Fp8Format {
  static constexpr bool kScalesInside = false;
  FORETOKEN_DEVICE static float inner_scale(const WeightParams&, uint64_t, uint32_t, uint32_t) { return 1.0F; }
  FORETOKEN_DEVICE static float outer_scale(const WeightParams& w, uint64_t scale, uint64_t /*global_scale*/, uint32_t n) {
    return load_float(scale, n * w.scale_columns, w.scale_is_bf16 != 0) * kE4m3Divisor;
  }
};

struct Fp8BlockFormat : Fp8Format {
  static constexpr bool kScalesInside = true;
  FORETOKEN_DEVICE static float inner_scale(const WeightParams& w, uint64_t scale, uint32_t n, uint32_t k) {
    return load_float(scale, scale_row(w, n) + k / 128, w.scale_is_bf16 != 0);
  }
  FORETOKEN_DEVICE static uint64_t scale_row(const WeightParams& w, uint32_t n) {
    return uint64_t{n >> w.block_shift} * w.scale_columns;
  }
  template <bool kAligned>
  FORETOKEN_DEVICE static uint32_t load_scales(const WeightParams& w, uint64_t scale, uint32_t n, uint32_t k, uint32_t /*end*/) {
    const uint64_t index = scale_row(w, n) + k / 128;
    return w.scale_is_bf16 != 0 ? pointer<const uint16_t>(scale)[index] : pointer<const uint32_t>(scale)[index];
  }
  FORETOKEN_DEVICE static float loaded_scale(const WeightParams& w, uint32_t scales, uint32_t /*part*/) {
    return bits_to_float(w.scale_is_bf16 != 0 ? scales << 16 : scales);
  }
  FORETOKEN_DEVICE static float outer_scale(const WeightParams&, uint64_t, uint64_t, uint32_t) { return kE4m3Divisor; }
};

struct Nvfp4Format {
  static constexpr uint32_t kVector = 32;
  static constexpr uint32_t kPart = 8;
  static constexpr bool kScalesInside = true;
  FORETOKEN_DEVICE static uint64_t bytes(uint64_t elements) { return elements / 2; }
  FORETOKEN_DEVICE static void decode(const Codes& codes, uint32_t part, float (&values)[kPart]) {
    decode_weights(codes.word[part], values);
  }
  FORETOKEN_DEVICE static float inner_scale(const WeightParams& w, uint64_t scale, uint32_t n, uint32_t k) {
    return loaded_scale(w, __ldg(pointer<const uint8_t>(scale) + scale_row(w, n) + k / 16), 0);
  }
  FORETOKEN_DEVICE static uint64_t scale_row(const WeightParams& w, uint32_t n) { return uint64_t{n} * w.scale_columns; }
  template <bool kAligned>
  FORETOKEN_DEVICE static uint32_t load_scales(const WeightParams& w, uint64_t scale, uint32_t n, uint32_t k, uint32_t end) {
    const auto* scales = pointer<const uint8_t>(scale + scale_row(w, n) + k / 16);
    if constexpr (kAligned) return __ldg(reinterpret_cast<const uint16_t*>(scales));
    return k + 16 < end ? scales[0] | scales[1] << 8 : scales[0];
  }
  FORETOKEN_DEVICE static float loaded_scale(const WeightParams& /*w*/, uint32_t scales, uint32_t part) {
    float two[2];
    decode_weights(scales, two);
    return two[part * kPart / 16];
  }
  FORETOKEN_DEVICE static float outer_scale(const WeightParams& w, uint64_t /*scale*/, uint64_t global_scale, uint32_t n) {
    return pointer<const float>(global_scale)[n / w.rows_per_global] * (kE4m3Divisor * kE2m1Divisor);
  }
};

}  // namespace foretoken::gpu
