// Element types of tensors, and the exact conversions between them and float32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace foretoken {

enum class DType : uint8_t {
  kF32,
  kBF16,
  kE4M3,  // FP8, finite only: 0x7f and 0xff are NaN, largest value 448
  kE2M1,  // FP4, two to a byte, low nibble first
  kI32,
  kI64,
  kU8,
};

/// Bits of one element (4 for the packed E2M1).
[[nodiscard]] constexpr size_t dtype_bits(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32: return 32;
    case DType::kBF16: return 16;
    case DType::kI64: return 64;
    case DType::kE4M3:
    case DType::kU8: return 8;
    case DType::kE2M1: return 4;
  }
  return 0;
}

/// Bytes of `count` elements; an odd count of E2M1 takes a whole last byte.
[[nodiscard]] constexpr size_t dtype_bytes(DType dtype, size_t count) { return (dtype_bits(dtype) * count + 7) / 8; }

/// "F32", "BF16", ... the names of the safetensors format where it has one.
[[nodiscard]] std::string_view to_string(DType dtype);

/// Parses a safetensors dtype name ("F32", "BF16", "F8_E4M3", "I32", "I64", "U8"); nothing for any other.
[[nodiscard]] std::optional<DType> parse_safetensors_dtype(std::string_view name);

/// Exact value of a BF16.
[[nodiscard]] constexpr float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Nearest BF16, ties to even; a NaN stays a (quiet) NaN of the same sign.
[[nodiscard]] constexpr uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x0040U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// Exact value of an E4M3 byte (OCP FP8, finite-only variant).
[[nodiscard]] float e4m3_to_float(uint8_t byte);
/// Nearest E4M3, ties to even; magnitudes that round above 448 and infinities saturate to 448, a NaN stays a NaN.
[[nodiscard]] uint8_t float_to_e4m3(float value);

/// Value of an E2M1 nibble: sign, then {0, .5, 1, 1.5, 2, 3, 4, 6}.
[[nodiscard]] float e2m1_to_float(uint8_t nibble);
/// Nearest E2M1 nibble, ties to the even code, saturating at 6; the sign bit is kept when a negative value rounds to 0. NaN gives
/// +0.
[[nodiscard]] uint8_t float_to_e2m1(float value);

}  // namespace foretoken
