// Division rounded to nearest: Vulkan lets a quotient be 2.5 units in the last place off.
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

// a / b of finite numbers that are not 0, by integer division: subnormal numbers too.
float any_quotient(float a, float b) {
  int a_exponent;
  int b_exponent;
  const uint64_t numerator = uint64_t(mantissa_of(a, a_exponent)) << 32;
  const uint64_t denominator = mantissa_of(b, b_exponent);
  const uint64_t quotient = numerator / denominator;  // in (2^31, 2^33)
  const bool sticky = quotient * denominator != numerator;
  const int top = quotient >= 1ul << 32 ? 32 : 31;
  const int exponent = top + a_exponent - b_exponent - 32 + 127;
  const uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
  if (exponent >= 255) return uintBitsToFloat(sign | 0x7f800000u);
  const int dropped = top - 23 + max(1 - exponent, 0);
  if (dropped > 40) return uintBitsToFloat(sign);
  const uint64_t unit = 1ul << dropped;
  const uint64_t lost = quotient & (unit - 1);
  uint mantissa = uint(quotient >> dropped);
  if (2 * lost > unit || (2 * lost == unit && (sticky || (mantissa & 1u) != 0))) ++mantissa;
  // A mantissa that is carried up goes into the exponent.
  return uintBitsToFloat(sign | (uint(max(exponent - 1, 0)) << 23) + mantissa);
}

// a / b as IEEE 754 rounds it.
float exact_quotient(float a, float b) {
  const float estimate = a / b;
  const int a_exponent = int(floatBitsToUint(a) >> 23 & 0xffu);
  const int b_exponent = int(floatBitsToUint(b) >> 23 & 0xffu);
  const int q_exponent = int(floatBitsToUint(estimate) >> 23 & 0xffu);
  const bool are_normal = a_exponent > 0 && a_exponent < 255 && b_exponent > 0 && b_exponent < 255;
  if (!are_normal || q_exponent < 2 || q_exponent > 253) {
    const bool are_finite = a_exponent < 255 && b_exponent < 255;
    const bool are_zero = (floatBitsToUint(a) & 0x7fffffffu) == 0 || (floatBitsToUint(b) & 0x7fffffffu) == 0;
    return are_finite && !are_zero ? any_quotient(a, b) : estimate;
  }
  const uint a_mantissa = floatBitsToUint(a) & 0x7fffffu | 0x800000u;
  const uint b_mantissa = floatBitsToUint(b) & 0x7fffffu | 0x800000u;
  const uint q_mantissa = floatBitsToUint(estimate) & 0x7fffffu | 0x800000u;
  // The quotient is (a_mantissa << shift) / b_mantissa, of [2^23, 2^24), times a power of two.
  const int shift = a_mantissa >= b_mantissa ? 23 : 24;
  const int exponent = a_exponent - b_exponent + 150 - shift;
  uint quotient = q_exponent < exponent ? q_mantissa >> 1 : q_exponent > exponent ? q_mantissa << 1 : q_mantissa;
  int64_t rest = int64_t(uint64_t(a_mantissa) << shift) - int64_t(uint64_t(quotient) * b_mantissa);
  // No quotient lies halfway between two numbers of 24 bits.
  while (2 * rest > int64_t(b_mantissa)) {
    ++quotient;
    rest -= int64_t(b_mantissa);
  }
  while (2 * rest < -int64_t(b_mantissa)) {
    --quotient;
    rest += int64_t(b_mantissa);
  }
  const uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
  // A quotient of 2^24 carries into the exponent.
  return uintBitsToFloat(sign | (uint(exponent - 1) << 23) + quotient);
}

#endif
