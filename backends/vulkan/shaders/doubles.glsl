// Numbers of 53 bits that are at least 0, with the rounding of IEEE 754 doubles, in integers: devices need not have doubles, and
// Vulkan promises no rounding of theirs. Exponents have no bounds, so nothing overflows or is subnormal.
#ifndef FORETOKEN_DOUBLES_GLSL
#define FORETOKEN_DOUBLES_GLSL

// mantissa * 2^exponent, with a mantissa of [2^52, 2^53); mantissa 0 is 0.
struct Double {
  uint64_t mantissa;
  int exponent;
};

const uint64_t kTopBit = 1ul << 63;

// value * 2^exponent, to nearest, ties to even; `sticky`: there are bits below, not all 0.
Double rounded(uint64_t value, int exponent, bool sticky) {
  if (value == 0) return Double(0, 0);
  const uint high = uint(value >> 32);
  const int top = high != 0 ? 32 + findMSB(high) : findMSB(uint(value));
  if (top <= 52) return Double(value << (52 - top), exponent - (52 - top));  // callers have no bits below then
  const int shift = top - 52;
  const uint64_t unit = 1ul << shift;
  const uint64_t rest = value & (unit - 1);
  const uint64_t half_unit = unit >> 1;
  uint64_t mantissa = value >> shift;
  if (rest > half_unit || (rest == half_unit && (sticky || (mantissa & 1) != 0))) ++mantissa;
  // A carry out of the mantissa leaves a power of two.
  return mantissa >> 53 != 0 ? Double(mantissa >> 1, exponent + shift + 1) : Double(mantissa, exponent + shift);
}

Double to_double(uint64_t value) { return rounded(value, 0, false); }

// Rounded down.
uint64_t to_integer(Double a) {
  if (a.exponent >= 0) return a.mantissa << min(a.exponent, 63);
  return a.exponent > -64 ? a.mantissa >> -a.exponent : 0ul;
}

bool is_less(Double a, Double b) {
  if (a.mantissa == 0 || b.mantissa == 0) return a.mantissa == 0 && b.mantissa != 0;
  return a.exponent != b.exponent ? a.exponent < b.exponent : a.mantissa < b.mantissa;
}

Double product(Double a, Double b) {
  if (a.mantissa == 0 || b.mantissa == 0) return Double(0, 0);
  const uint64_t left = a.mantissa << 11;
  const uint64_t right = b.mantissa << 11;
  return rounded(multiply_high(left, right), a.exponent + b.exponent + 42, left * right != 0);
}

// b is not 0.
Double quotient(Double a, Double b) {
  if (a.mantissa == 0) return a;
  uint64_t bits = 0;
  uint64_t rest = a.mantissa;
  for (int i = 0; i < 56; ++i) {
    bits <<= 1;
    if (rest >= b.mantissa) {
      rest -= b.mantissa;
      bits |= 1;
    }
    rest <<= 1;
  }
  return rounded(bits, a.exponent - b.exponent - 55, rest != 0);
}

// `value` as a multiple of 2^distance, its last bit set where bits are lost.
uint64_t shifted_down(uint64_t value, int distance) {
  if (distance == 0) return value;
  if (distance > 63) return value != 0 ? 1ul : 0ul;
  const uint64_t lost = value & ((1ul << distance) - 1);
  return value >> distance | (lost != 0 ? 1ul : 0ul);
}

Double sum_of(Double a, Double b) {
  if (a.mantissa == 0) return b;
  if (b.mantissa == 0) return a;
  const bool in_order = a.exponent >= b.exponent;
  const Double large = in_order ? a : b;
  const Double small = in_order ? b : a;
  const uint64_t aligned = shifted_down(small.mantissa << 9, large.exponent - small.exponent);
  return rounded((large.mantissa << 9) + aligned, large.exponent - 9, false);
}

// a - b, and 0 where b is not less.
Double difference(Double a, Double b) {
  if (!is_less(b, a)) return Double(0, 0);
  if (b.mantissa == 0) return a;
  const uint64_t aligned = shifted_down(b.mantissa << 10, a.exponent - b.exponent);
  return rounded((a.mantissa << 10) - aligned, a.exponent - 10, false);
}

#endif
