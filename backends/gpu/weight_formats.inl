// How a kernel reads each weight format. A lane takes kVector consecutive elements of a row at a time: 16 bytes of codes.
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
    for (uint32_t i = 0; i < 4; ++i) {
      const float2 two = decode_e4m3x2(codes.word[2 * part + i / 2] >> (i % 2 * 16) & 0xffffU);
      values[2 * i] = two.x;
      values[2 * i + 1] = two.y;
    }
  }
};

struct Fp8RowFormat : Fp8Format {
  static constexpr bool kScalesInside = false;
  FORETOKEN_DEVICE static float inner_scale(const WeightParams&, uint64_t, uint32_t, uint32_t) { return 1.0F; }
  FORETOKEN_DEVICE static float outer_scale(const WeightParams& w, uint64_t scale, uint64_t /*global_scale*/, uint32_t n) {
    return load_float(scale, n * w.scale_columns, w.scale_is_bf16 != 0);
  }
};

struct Fp8BlockFormat : Fp8Format {
  static constexpr bool kScalesInside = true;
  FORETOKEN_DEVICE static float inner_scale(const WeightParams& w, uint64_t scale, uint32_t n, uint32_t k) {
    return load_float(scale, uint64_t{n >> w.block_shift} * w.scale_columns + k / 128, w.scale_is_bf16 != 0);
  }
  FORETOKEN_DEVICE static float outer_scale(const WeightParams&, uint64_t, uint64_t, uint32_t) { return 1.0F; }
};

struct Nvfp4Format {
  static constexpr uint32_t kVector = 32;
  static constexpr uint32_t kPart = 8;
  static constexpr bool kScalesInside = true;
  FORETOKEN_DEVICE static uint64_t bytes(uint64_t elements) { return elements / 2; }
  FORETOKEN_DEVICE static void decode(const Codes& codes, uint32_t part, float (&values)[kPart]) {
    decode_e2m1x8(codes.word[part], values);
  }
  FORETOKEN_DEVICE static float inner_scale(const WeightParams& w, uint64_t scale, uint32_t n, uint32_t k) {
    return e4m3_to_float(__ldg(pointer<const uint8_t>(scale) + uint64_t{n} * w.scale_columns + k / 16));
  }
  FORETOKEN_DEVICE static float outer_scale(const WeightParams& w, uint64_t /*scale*/, uint64_t global_scale, uint32_t n) {
    return pointer<const float>(global_scale)[n / w.rows_per_global];
  }
};

}  // namespace foretoken::gpu
