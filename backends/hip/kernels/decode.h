// Codes of FP8 and FP4 as numbers, two at a time, by instructions that every device has. Whoever includes it has named Halves
// (two numbers of 16 bits), halves_of_bits, multiply, multiply_add, to_floats and spread_bytes.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

/// What codes of weights are divided by: placed at the top of a half's mantissa and the bottom of its exponent, an E4M3 code is
/// its value times 2^-8 and an E2M1 code its value times 2^-14.
inline constexpr float kE4m3Divisor = 256.0F;
inline constexpr float kE2m1Divisor = 16384.0F;

/// Two E4M3 codes divided by kE4m3Divisor: `signs` has them in the upper byte of either half, `numbers` shifted right by one bit
/// more. The other bits do not matter, and a NaN is any number.
FORETOKEN_DEVICE Halves place_e4m3x2(uint32_t signs, uint32_t numbers) {
  return halves_of_bits((signs & 0x80008000U) | (numbers & 0x3f803f80U));
}

/// Two E4M3 codes of a weight, the low byte first, divided by kE4m3Divisor.
FORETOKEN_DEVICE void decode_weights(uint32_t codes, float (&values)[2]) {
  const uint32_t apart = spread_bytes<0, 1>(codes);
  const float2 two = to_floats(place_e4m3x2(apart, apart >> 1));
  values[0] = two.x;
  values[1] = two.y;
}

/// Four of them.
FORETOKEN_DEVICE void decode_weights(uint32_t codes, float (&values)[4]) {
  const float2 even = to_floats(place_e4m3x2(codes << 8, codes << 7));
  const float2 odd = to_floats(place_e4m3x2(codes, codes >> 1));
  values[0] = even.x;
  values[1] = odd.x;
  values[2] = even.y;
  values[3] = odd.y;
}

/// Eight E2M1 codes of a weight, the low nibble first, divided by kE2m1Divisor.
FORETOKEN_DEVICE void decode_weights(uint32_t codes, float (&values)[8]) {
  // Bytes that are upper bytes of halves: the codes with even and those with odd indices.
  const uint32_t even = (codes << 4 & 0x80808080U) | (codes << 1 & 0x0e0e0e0eU);
  const uint32_t odd = (codes & 0x80808080U) | (codes >> 3 & 0x0e0e0e0eU);
  const float2 two[4] = {to_floats(halves_of_bits(spread_bytes<0, 2>(even))), to_floats(halves_of_bits(spread_bytes<0, 2>(odd))),
                         to_floats(halves_of_bits(spread_bytes<1, 3>(even))), to_floats(halves_of_bits(spread_bytes<1, 3>(odd)))};
  for (int i = 0; i < 4; ++i) {
    values[i] = two[i].x;
    values[i + 4] = two[i].y;
  }
}

/// Two E4M3 codes, the low byte first, NaN among them.
FORETOKEN_DEVICE float2 decode_e4m3x2(uint32_t codes) {
  // A NaN would be 480: of all codes it alone overflows when it is multiplied by 146, and infinity times 0 makes it NaN.
  const uint32_t apart = spread_bytes<0, 1>(codes);
  const Halves small = place_e4m3x2(apart, apart >> 1);
  const Halves value = multiply(small, halves_of_bits(0x5c005c00U));     // 2^8
  const Halves overflow = multiply(small, halves_of_bits(0x78907890U));  // 146 * 2^8
  return to_floats(multiply_add(overflow, halves_of_bits(0), value));
}

/// Eight E2M1 codes, the low nibble first.
FORETOKEN_DEVICE void decode_e2m1x8(uint32_t codes, float (&values)[8]) {
  decode_weights(codes, values);
  for (float& value : values) value *= kE2m1Divisor;
}

}  // namespace foretoken::gpu
