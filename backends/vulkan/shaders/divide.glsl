// Division rounded to nearest: Vulkan lets a quotient be 2.5 units in the last place off, and need not know subnormal numbers.
#ifndef FORETOKEN_DIVIDE_GLSL
#define FORETOKEN_DIVIDE_GLSL

// The mantissa of a finite number that is not 0, in [2^23, 2^24), and the biased exponent that goes with it.
uint mantissa_of(float value, out int exponent) {
  const uint bits = floatBitsToUint(value) & 0x7fffffffu;
  exponent = int(bits >> 23);
  if (exponent > 0) return bits & 0x7fffffu | 0x800000u;
  const int shift = 23 - findMSB(bits);
  exponent = 1 - shift;
  return bits << shift;
}

bool is_zero_or_not_finite(float value) {
  const uint magnitude = floatBitsToUint(value) & 0x7fffffffu;
  return magnitude == 0 || magnitude >= 0x7f800000u;
}

// a / b as IEEE 754 rounds it, bit by bit.
float exact_quotient(float a, float b) {
  if (is_zero_or_not_finite(a) || is_zero_or_not_finite(b)) return a / b;
  int a_exponent;
  int b_exponent;
  uint rest = mantissa_of(a, a_exponent);
  const uint divisor = mantissa_of(b, b_exponent);
  int exponent = a_exponent - b_exponent + 127;
  if (rest < divisor) {
    rest <<= 1;
    --exponent;
  }
  uint quotient = 0;  // of [1, 2), with 24 bits after the point: one more than a number keeps
  for (uint bit = 0; bit < 25; ++bit) {
    quotient <<= 1;
    if (rest >= divisor) {
      rest -= divisor;
      quotient |= 1u;
    }
    rest <<= 1;
  }
  const uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
  if (exponent >= 255) return uintBitsToFloat(sign | 0x7f800000u);
  const int dropped = 1 + max(1 - exponent, 0);
  if (dropped > 25) return uintBitsToFloat(sign);  // less than half of the smallest number
  const uint half_unit = 1u << (dropped - 1);
  const uint lost = quotient & (2 * half_unit - 1);
  uint mantissa = quotient >> dropped;
  if (lost > half_unit || (lost == half_unit && (rest != 0 || (mantissa & 1u) != 0))) ++mantissa;
  // A mantissa that is carried up goes into the exponent.
  return uintBitsToFloat((sign | (uint(max(exponent - 1, 0)) << 23)) + mantissa);
}

#endif
