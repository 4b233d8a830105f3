// Codes of FP8 and FP4 as numbers, two at a time, by instructions that every device has. Whoever includes it has named Halves
// (two numbers of 16 bits), halves_of_bits, multiply, multiply_add and to_floats.
#pragma once

#include <cstdint>

namespace foretoken::gpu {

/// Two E4M3 codes, in the upper byte of either half of `codes`; the other bytes do not matter.
FORETOKEN_DEVICE float2 decode_upper_e4m3x2(uint32_t codes) {
  // Placed at the top of a half's mantissa and the bottom of its exponent, a code is its value times 2^-8. A NaN would be 480: of
  // all codes it alone overflows when it is multiplied by 146, and infinity times 0 makes it NaN.
  const Halves small = halves_of_bits((codes & 0x80008000U) | (codes >> 1 & 0x3f803f80U));
  const Halves value = multiply(small, halves_of_bits(0x5c005c00U));     // 2^8
  const Halves overflow = multiply(small, halves_of_bits(0x78907890U));  // 146 * 2^8
  return to_floats(multiply_add(overflow, halves_of_bits(0), value));
}

/// Two E2M1 codes, in the lower four bits of either half of `codes`; the other bits do not matter.
FORETOKEN_DEVICE float2 decode_lower_e2m1x2(uint32_t codes) {
  // Placed likewise, a code is its value times 2^-14.
  const Halves small = halves_of_bits((codes & 0x00080008U) << 12 | (codes & 0x00070007U) << 9);
  return to_floats(multiply(small, halves_of_bits(0x74007400U)));  // 2^14
}

}  // namespace foretoken::gpu
