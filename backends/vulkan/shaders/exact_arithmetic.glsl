// Quotients and products as IEEE 754 rounds them, by integers: Vulkan lets a quotient be 2.5 units in the last place off, and a
// device may take subnormal numbers for 0.
#ifndef FORETOKEN_EXACT_ARITHMETIC_GLSL
#define FORETOKEN_EXACT_ARITHMETIC_GLSL

uint magnitude_bits(float value) { return floatBitsToUint(value) & 0x7fffffffu; }

// Unlike a comparison with 0, which a subnormal number may pass.
bool is_zero(float value) { return magnitude_bits(value) == 0; }

bool is_zero_or_not_finite(float value) { return is_zero(value) || magnitude_bits(value) >= 0x7f800000u; }

// The mantissa of a finite number that is not 0, in [2^23, 2^24), and the biased exponent that goes with it.
uint mantissa_of(float value, out int exponent) {
  const uint bits = magnitude_bits(value);
  const int shift = 23 - min(findMSB(bits), 23);  // of a subnormal number
  exponent = max(int(bits >> 23), 1) - shift;
  return shift > 0 ? bits << shift : bits & 0x7fffffu | 0x800000u;
}

// The nearest number, ties to even: `significand` in [2^24, 2^25) has one bit more than a number keeps, `sticky` says that
// something follows it; `exponent` is biased.
float rounded(uint sign, int exponent, uint significand, bool sticky) {
  const int dropped = 1 + clamp(1 - exponent, 0, 25);  // 26: less than half of the smallest number
  const uint half_unit = 1u << (dropped - 1);
  const uint lost = significand & (2 * half_unit - 1);
  uint mantissa = significand >> dropped;
  if (lost > half_unit || (lost == half_unit && (sticky || (mantissa & 1u) != 0))) ++mantissa;
  // A mantissa that is carried up goes into the exponent.
  const uint magnitude = exponent >= 255 ? 0x7f800000u : (uint(max(exponent - 1, 0)) << 23) + mantissa;
  return uintBitsToFloat(sign | magnitude);
}

uint sign_of_both(float a, float b) { return (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u; }

float exact_quotient(float a, float b) {
  float result = a / b;
  if (!is_zero_or_not_finite(a) && !is_zero_or_not_finite(b)) {
    int a_exponent;
    int b_exponent;
    uint rest = mantissa_of(a, a_exponent);
    const uint divisor = mantissa_of(b, b_exponent);
    int exponent = a_exponent - b_exponent + 127;
    if (rest < divisor) {
      rest <<= 1;
      --exponent;
    }
    uint quotient = 0;
    for (uint bit = 0; bit < 25; ++bit) {
      quotient <<= 1;
      if (rest >= divisor) {
        rest -= divisor;
        quotient |= 1u;
      }
      rest <<= 1;
    }
    result = rounded(sign_of_both(a, b), exponent, quotient, rest != 0);
  } else if (is_zero(a) != is_zero(b) && !is_nan(a) && !is_nan(b)) {  // the other one may be subnormal
    result = uintBitsToFloat(sign_of_both(a, b) | (is_zero(a) ? 0u : 0x7f800000u));
  }
  return result;
}

float exact_product(float a, float b) {
  float result = a * b;
  if (!is_zero_or_not_finite(a) && !is_zero_or_not_finite(b)) {
    int a_exponent;
    int b_exponent;
    uint64_t product = uint64_t(mantissa_of(a, a_exponent)) * mantissa_of(b, b_exponent);  // in [2^46, 2^48)
    const bool is_large = product >= 1ul << 47;
    if (!is_large) product <<= 1;
    const int exponent = a_exponent + b_exponent - (is_large ? 126 : 127);
    result = rounded(sign_of_both(a, b), exponent, uint(product >> 23), (uint(product) & 0x7fffffu) != 0);
  }
  return result;
}

#endif
