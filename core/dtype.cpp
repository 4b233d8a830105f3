#include "core/dtype.h"

#include <array>
#include <cmath>
#include <limits>

namespace foretoken {
namespace {

constexpr std::array<float, 8> kE2M1Values = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

}  // namespace

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "F32";
    case DType::kBF16: return "BF16";
    case DType::kE4M3: return "F8_E4M3";
    case DType::kE2M1: return "E2M1";
    case DType::kI32: return "I32";
    case DType::kI64: return "I64";
    case DType::kU8: return "U8";
  }
  return "unknown";
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kE4M3, DType::kI32, DType::kI64, DType::kU8}) {
    if (to_string(dtype) == name) return dtype;
  }
  return std::nullopt;
}

float e4m3_to_float(uint8_t byte) {
  const uint32_t exponent = (byte >> 3) & 0xfU;
  const uint32_t mantissa = byte & 0x7U;
  const float sign = (byte & 0x80U) != 0 ? -1.0F : 1.0F;
  if (exponent == 0xfU && mantissa == 0x7U) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 10);
}

uint8_t float_to_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0x00;
  if (std::isnan(value)) return static_cast<uint8_t>(sign | 0x7fU);
  const float magnitude = std::fabs(value);
  if (magnitude >= 448.0F) return static_cast<uint8_t>(sign | 0x7eU);
  // Below 2^-6 the grid is uniform with step 2^-9; above, 8 steps per power of two.
  const int exponent = magnitude < 0.015625F ? -6 : std::ilogb(magnitude);
  const float steps = std::ldexp(magnitude, 3 - exponent);
  float floor_steps = std::floor(steps);
  const float rest = steps - floor_steps;
  const bool odd = std::fmod(floor_steps, 2.0F) != 0.0F;
  if (rest > 0.5F || (rest == 0.5F && odd)) floor_steps += 1.0F;
  // A carry out of the mantissa (16 steps) lands on the next exponent because the codes are consecutive.
  const auto code = static_cast<uint32_t>(floor_steps) + static_cast<uint32_t>(exponent + 6) * 8U;
  return static_cast<uint8_t>(sign | (code > 0x7eU ? 0x7eU : code));
}

float e2m1_to_float(uint8_t nibble) {
  const float magnitude = kE2M1Values[nibble & 0x7U];
  return (nibble & 0x8U) != 0 ? -magnitude : magnitude;
}

uint8_t float_to_e2m1(float value) {
  if (std::isnan(value)) return 0;
  const uint8_t sign = value < 0.0F ? 0x8 : 0x0;
  const float magnitude = std::fabs(value);
  uint8_t code = 7;
  for (uint8_t lower = 0; lower < 7; ++lower) {
    const float middle = (kE2M1Values[lower] + kE2M1Values[lower + 1]) / 2.0F;
    if (magnitude < middle || (magnitude == middle && lower % 2 == 0)) {
      code = lower;
      break;
    }
  }
  return static_cast<uint8_t>(sign | code);
}

}  // namespace foretoken
