// Division rounded to nearest: Vulkan lets a quotient be 2.5 units in the last place off.
#ifndef FORETOKEN_DIVIDE_GLSL
#define FORETOKEN_DIVIDE_GLSL

// a / b as IEEE 754 rounds it, wherever operands and quotient are normal numbers; the device's own quotient elsewhere.
float exact_quotient(float a, float b) {
  const float estimate = a / b;
  const int a_exponent = int(floatBitsToUint(a) >> 23 & 0xffu);
  const int b_exponent = int(floatBitsToUint(b) >> 23 & 0xffu);
  const int q_exponent = int(floatBitsToUint(estimate) >> 23 & 0xffu);
  const bool are_normal = a_exponent > 0 && a_exponent < 255 && b_exponent > 0 && b_exponent < 255;
  if (!are_normal || q_exponent < 2 || q_exponent > 253) return estimate;
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
