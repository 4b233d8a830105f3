// Sixteen float32 lanes on every instruction set: one AVX-512 register, two AVX2 registers or plain code. The lane count and
// every reduction order are the same everywhere, and FMA is explicit. Kernel sources are compiled once per instruction set, each
// time with FORETOKEN_CPU_ISA (scalar, avx2, avx512, ...) as their namespace, so nothing of one set can be linked into another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef FORETOKEN_CPU_ISA
#error "kernel sources are compiled through foretoken_cpu_kernels() in backends/cpu/CMakeLists.txt"
#endif

#define FORETOKEN_SIMD_INLINE inline __attribute__((always_inline))

namespace foretoken::cpu::FORETOKEN_CPU_ISA {

inline constexpr size_t kLanes = 16;

#if defined(__AVX512F__)

struct F32x16 {
  __m512 v;

  static FORETOKEN_SIMD_INLINE F32x16 zero() { return {_mm512_setzero_ps()}; }
  static FORETOKEN_SIMD_INLINE F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
  static FORETOKEN_SIMD_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  /// The first `count` (0..16) lanes; the others are 0.
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const float* p, size_t count) {
    return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1U), p)};
  }
  static FORETOKEN_SIMD_INLINE F32x16 load(const uint16_t* bf16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bf16));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
  }
  FORETOKEN_SIMD_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  FORETOKEN_SIMD_INLINE void store_partial(float* p, size_t count) const {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << count) - 1U), v);
  }
};

FORETOKEN_SIMD_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
FORETOKEN_SIMD_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
FORETOKEN_SIMD_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
FORETOKEN_SIMD_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c, rounded once (plain code: twice).
FORETOKEN_SIMD_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
FORETOKEN_SIMD_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
FORETOKEN_SIMD_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
FORETOKEN_SIMD_INLINE F32x16 round_to_integer(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// a * 2^n for integral n in [-126, 127].
FORETOKEN_SIMD_INLINE F32x16 scale_by_power_of_two(F32x16 a, F32x16 n) {
  const __m512i bits = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23);
  return {_mm512_mul_ps(a.v, _mm512_castsi512_ps(bits))};
}
/// BF16 of each lane, nearest, ties to even (NaN excepted: callers store finite values).
FORETOKEN_SIMD_INLINE void store_bf16(F32x16 a, uint16_t* p) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
/// BF16 of sixteen values, NaN included.
FORETOKEN_SIMD_INLINE void store_bf16_or_nan(F32x16 value, uint16_t* out) {
  store_bf16(value, out);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(value.v, value.v, _CMP_UNORD_Q);
  for (size_t i = 0; is_nan != 0 && i < kLanes; ++i) {
    if ((is_nan >> i & 1) != 0) out[i] = 0x7fc0;
  }
}
/// ((l0+l8)+(l4+l12)) ... : halves folded onto each other, 8, 4, 2, 1.
FORETOKEN_SIMD_INLINE float reduce_add(F32x16 a) {
  const __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1)));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
/// sums[i] = reduce_add(a[i]), to the bit.
FORETOKEN_SIMD_INLINE void reduce_add_four(const F32x16* a, float* sums) {
  const auto fold_eight = [](__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
  };
  const __m512 ab = fold_eight(a[0].v, a[1].v);
  const __m512 cd = fold_eight(a[2].v, a[3].v);
  const __m512 four = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4e));
  const __m512 one = _mm512_add_ps(two, _mm512_permute_ps(two, 0xb1));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  _mm_storeu_ps(sums, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one)));
}
/// reduce_add of sixteen vectors a[row * stride + column], four by four: sums[row * sums_stride + column].
FORETOKEN_SIMD_INLINE void reduce_add_sixteen(const F32x16* a, size_t stride, float* sums, size_t sums_stride) {
  const auto fold_eight = [](__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
  };
  __m512 column[4];  // quarter q: four partial sums of row q
#pragma GCC unroll 4
  for (size_t c = 0; c < 4; ++c) {
    const __m512 top = fold_eight(a[c].v, a[stride + c].v);
    const __m512 bottom = fold_eight(a[2 * stride + c].v, a[3 * stride + c].v);
    column[c] = _mm512_add_ps(_mm512_shuffle_f32x4(top, bottom, 0x88), _mm512_shuffle_f32x4(top, bottom, 0xdd));
  }
  const auto fold_two = [](__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xee));
  };
  const __m512 left = fold_two(column[0], column[1]);
  const __m512 right = fold_two(column[2], column[3]);
  const __m512 all = _mm512_add_ps(_mm512_shuffle_ps(left, right, 0x88), _mm512_shuffle_ps(left, right, 0xdd));
  _mm_storeu_ps(sums, _mm512_castps512_ps128(all));
  _mm_storeu_ps(sums + sums_stride, _mm512_extractf32x4_ps(all, 1));
  _mm_storeu_ps(sums + 2 * sums_stride, _mm512_extractf32x4_ps(all, 2));
  _mm_storeu_ps(sums + 3 * sums_stride, _mm512_extractf32x4_ps(all, 3));
}
FORETOKEN_SIMD_INLINE float reduce_max(F32x16 a) { return _mm512_reduce_max_ps(a.v); }

/// Of thirty-two consecutive elements, those at even (0, 2, ..) or odd (1, 3, ..) places. From BF16 that takes one bit operation
/// where widening takes two, and whole cache lines are loaded.
template <bool kOdd>
FORETOKEN_SIMD_INLINE F32x16 alternate_bf16(__m512i bf16) {
  if constexpr (kOdd) return {_mm512_castsi512_ps(_mm512_and_si512(bf16, _mm512_set1_epi32(static_cast<int>(0xffff0000U))))};
  return {_mm512_castsi512_ps(_mm512_slli_epi32(bf16, 16))};
}
template <bool kOdd>
FORETOKEN_SIMD_INLINE F32x16 load_alternate(const uint16_t* bf16) {
  return alternate_bf16<kOdd>(_mm512_loadu_si512(bf16));
}
/// The first `count` (0..32) of the thirty-two; the others are 0.
template <bool kOdd>
FORETOKEN_SIMD_INLINE F32x16 load_alternate_partial(const uint16_t* bf16, size_t count) {
  return alternate_bf16<kOdd>(_mm512_maskz_loadu_epi16(static_cast<__mmask32>((uint64_t{1} << count) - 1U), bf16));
}
template <bool kOdd>
FORETOKEN_SIMD_INLINE F32x16 alternate(F32x16 low, F32x16 high) {
  constexpr int kFirst = kOdd ? 1 : 0;
  const __m512i places =
      _mm512_add_epi32(_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), _mm512_set1_epi32(kFirst));
  return {_mm512_permutex2var_ps(low.v, places, high.v)};
}
template <bool kOdd>
FORETOKEN_SIMD_INLINE F32x16 load_alternate(const float* p) {
  return alternate<kOdd>(F32x16::load(p), F32x16::load(p + kLanes));
}
template <bool kOdd>
FORETOKEN_SIMD_INLINE F32x16 load_alternate_partial(const float* p, size_t count) {
  const size_t low = count < kLanes ? count : kLanes;
  const F32x16 high = count > kLanes ? F32x16::load_partial(p + low, count - low) : F32x16::zero();
  return alternate<kOdd>(F32x16::load_partial(p, low), high);
}

#elif defined(__AVX2__)

struct F32x16 {
  __m256 lo, hi;

  static FORETOKEN_SIMD_INLINE F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static FORETOKEN_SIMD_INLINE F32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static FORETOKEN_SIMD_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const float* p, size_t count) {
    float lanes[kLanes] = {};
    std::memcpy(lanes, p, count * sizeof(float));
    return load(lanes);
  }
  static FORETOKEN_SIMD_INLINE F32x16 load(const uint16_t* bf16) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bf16));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bf16 + 8));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(low), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16))};
  }
  FORETOKEN_SIMD_INLINE void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  FORETOKEN_SIMD_INLINE void store_partial(float* p, size_t count) const {
    float lanes[kLanes];
    store(lanes);
    std::memcpy(p, lanes, count * sizeof(float));
  }
};

FORETOKEN_SIMD_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
FORETOKEN_SIMD_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
FORETOKEN_SIMD_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
FORETOKEN_SIMD_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
FORETOKEN_SIMD_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
FORETOKEN_SIMD_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
FORETOKEN_SIMD_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
FORETOKEN_SIMD_INLINE F32x16 round_to_integer(F32x16 a) {
  return {_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
FORETOKEN_SIMD_INLINE F32x16 scale_by_power_of_two(F32x16 a, F32x16 n) {
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i lo = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.lo), bias), 23);
  const __m256i hi = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.hi), bias), 23);
  return {_mm256_mul_ps(a.lo, _mm256_castsi256_ps(lo)), _mm256_mul_ps(a.hi, _mm256_castsi256_ps(hi))};
}
FORETOKEN_SIMD_INLINE void store_bf16(F32x16 a, uint16_t* p) {
  const auto round_half = [](__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  };
  const __m256i packed = _mm256_packus_epi32(round_half(a.lo), round_half(a.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
FORETOKEN_SIMD_INLINE float reduce_add(F32x16 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
FORETOKEN_SIMD_INLINE void reduce_add_four(const F32x16* a, float* sums) {
  const auto fold_four = [](F32x16 x) {
    const __m256 eight = _mm256_add_ps(x.lo, x.hi);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  };
  const auto fold_two = [](__m128 x, __m128 y) { return _mm_add_ps(_mm_unpacklo_ps(x, y), _mm_unpackhi_ps(x, y)); };
  const __m128 ab = fold_two(fold_four(a[0]), fold_four(a[1]));
  const __m128 cd = fold_two(fold_four(a[2]), fold_four(a[3]));
  _mm_storeu_ps(sums, _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
}
FORETOKEN_SIMD_INLINE float reduce_max(F32x16 a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#else

/// Plain code; the compiler's vector type keeps it in registers.
struct F32x16 {
  using Lanes [[gnu::vector_size(64)]] = float;
  using IntLanes [[gnu::vector_size(64)]] = int32_t;
  Lanes v;

  static FORETOKEN_SIMD_INLINE F32x16 zero() { return {Lanes{}}; }
  static FORETOKEN_SIMD_INLINE F32x16 broadcast(float x) { return {x - Lanes{}}; }
  static FORETOKEN_SIMD_INLINE F32x16 load(const float* p) {
    F32x16 r;
    std::memcpy(&r.v, p, sizeof(r.v));
    return r;
  }
  static FORETOKEN_SIMD_INLINE F32x16 load_partial(const float* p, size_t count) {
    F32x16 r = zero();
    std::memcpy(&r.v, p, count * sizeof(float));
    return r;
  }
  static FORETOKEN_SIMD_INLINE F32x16 load(const uint16_t* bf16) {
    uint32_t bits[kLanes];
    for (size_t i = 0; i < kLanes; ++i) bits[i] = static_cast<uint32_t>(bf16[i]) << 16;
    F32x16 r;
    std::memcpy(&r.v, bits, sizeof(r.v));
    return r;
  }
  FORETOKEN_SIMD_INLINE void store(float* p) const { std::memcpy(p, &v, sizeof(v)); }
  FORETOKEN_SIMD_INLINE void store_partial(float* p, size_t count) const { std::memcpy(p, &v, count * sizeof(float)); }
};

FORETOKEN_SIMD_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {a.v + b.v}; }
FORETOKEN_SIMD_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {a.v - b.v}; }
FORETOKEN_SIMD_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {a.v * b.v}; }
FORETOKEN_SIMD_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {a.v / b.v}; }
FORETOKEN_SIMD_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {a.v * b.v + c.v}; }
FORETOKEN_SIMD_INLINE F32x16 max(F32x16 a, F32x16 b) { return {a.v > b.v ? a.v : b.v}; }
FORETOKEN_SIMD_INLINE F32x16 min(F32x16 a, F32x16 b) { return {a.v < b.v ? a.v : b.v}; }
FORETOKEN_SIMD_INLINE F32x16 round_to_integer(F32x16 a) {
  // Adding and taking away 1.5 * 2^23 rounds |a| < 2^22 to the nearest integer, ties to even.
  const F32x16 magic = F32x16::broadcast(12582912.0F);
  return (a + magic) - magic;
}
FORETOKEN_SIMD_INLINE F32x16 scale_by_power_of_two(F32x16 a, F32x16 n) {
  const F32x16::IntLanes bits = (__builtin_convertvector(n.v, F32x16::IntLanes) + 127) << 23;
  F32x16 power;
  std::memcpy(&power.v, &bits, sizeof(bits));
  return a * power;
}
FORETOKEN_SIMD_INLINE void store_bf16(F32x16 a, uint16_t* p) {
  uint32_t bits[kLanes];
  std::memcpy(bits, &a.v, sizeof(bits));
  for (size_t i = 0; i < kLanes; ++i) p[i] = static_cast<uint16_t>((bits[i] + 0x7fffU + ((bits[i] >> 16) & 1U)) >> 16);
}
FORETOKEN_SIMD_INLINE float reduce_add(F32x16 a) {
  float s[kLanes];
  a.store(s);
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) s[i] += s[i + half];
  }
  return s[0];
}
FORETOKEN_SIMD_INLINE void reduce_add_four(const F32x16* a, float* sums) {
  for (size_t i = 0; i < 4; ++i) sums[i] = reduce_add(a[i]);
}
FORETOKEN_SIMD_INLINE float reduce_max(F32x16 a) {
  float s[kLanes];
  a.store(s);
  float best = s[0];
  for (size_t i = 1; i < kLanes; ++i) best = s[i] > best ? s[i] : best;
  return best;
}

#endif

/// The first `count` (0..16) BF16 values; the other lanes are 0.
FORETOKEN_SIMD_INLINE F32x16 load_partial_bf16(const uint16_t* p, size_t count) {
  uint16_t lanes[kLanes] = {};
  std::memcpy(lanes, p, count * sizeof(uint16_t));
  return F32x16::load(lanes);
}

/// e^x, relative error below 2e-7; 0 below -87.3, +inf is never produced: x is clamped to 88.
FORETOKEN_SIMD_INLINE F32x16 exp(F32x16 x) {
  const F32x16 clamped = min(max(x, F32x16::broadcast(-87.3F)), F32x16::broadcast(88.0F));
  const F32x16 n = round_to_integer(clamped * F32x16::broadcast(1.44269504088896341F));
  // ln 2 in two parts (Cody and Waite), so the reduced argument keeps its low bits.
  F32x16 r = fma(n, F32x16::broadcast(-0.693359375F), clamped);
  r = fma(n, F32x16::broadcast(2.12194440e-4F), r);
  F32x16 p = F32x16::broadcast(1.0F / 5040.0F);
  p = fma(p, r, F32x16::broadcast(1.0F / 720.0F));
  p = fma(p, r, F32x16::broadcast(1.0F / 120.0F));
  p = fma(p, r, F32x16::broadcast(1.0F / 24.0F));
  p = fma(p, r, F32x16::broadcast(1.0F / 6.0F));
  p = fma(p, r, F32x16::broadcast(0.5F));
  p = fma(p, r, F32x16::broadcast(1.0F));
  p = fma(p, r, F32x16::broadcast(1.0F));
  return scale_by_power_of_two(p, n);
}

FORETOKEN_SIMD_INLINE F32x16 sigmoid(F32x16 x) {
  const F32x16 one = F32x16::broadcast(1.0F);
  return one / (one + exp(F32x16::zero() - x));
}

FORETOKEN_SIMD_INLINE F32x16 silu(F32x16 x) { return x * sigmoid(x); }

/// One float through the same arithmetic as a lane.
FORETOKEN_SIMD_INLINE float exp_one(float x) {
  float lanes[kLanes];
  exp(F32x16::broadcast(x)).store(lanes);
  return lanes[0];
}

}  // namespace foretoken::cpu::FORETOKEN_CPU_ISA
