// Vectors for one instruction set. The file that includes this one is compiled once for each instruction set, with
// BPFA_BYTES the width of a register and BPFA_ISA a namespace of its own. Such a file may only use functions of its own
// namespace, always-inline functions and builtins. If it used a standard template, the linker might pick the copy
// compiled for wide registers for the whole program, and older processors could not run it.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define BPFA_X86 1
#endif

#define BPFA_INLINE inline __attribute__((always_inline))

namespace BPFA_ISA {

template <class T>
struct VecOf {
  typedef T type __attribute__((vector_size(BPFA_BYTES), may_alias));
};
template <class T>
using Vec = typename VecOf<T>::type;

// Integers that are as wide as a real number.
template <class Real>
struct Bits;
template <>
struct Bits<float> {
  using Unsigned = std::uint32_t;
  using Signed = std::int32_t;
};
template <>
struct Bits<double> {
  using Unsigned = std::uint64_t;
  using Signed = std::int64_t;
};
template <class Real>
using UInt = typename Bits<Real>::Unsigned;
template <class Real>
using SInt = typename Bits<Real>::Signed;

// The number of lanes in a register.
template <class Real>
constexpr int lanes = BPFA_BYTES / static_cast<int>(sizeof(Real));

// Vectors in memory must be aligned to the width of a register.
template <class Real>
BPFA_INLINE Vec<Real> load(const Real* p) {
  return *reinterpret_cast<const Vec<Real>*>(p);
}
template <class Real>
BPFA_INLINE void store(Real* p, Vec<Real> v) {
  *reinterpret_cast<Vec<Real>*>(p) = v;
}
// A vector with the same number in every lane. Subtracting zero, unlike adding it, leaves even -0 as it is.
template <class Real>
BPFA_INLINE Vec<Real> splat(Real a) {
  return a - Vec<Real>{};
}
// The same bits as another type.
template <class To, class From>
BPFA_INLINE To bitcast(From v) {
  static_assert(sizeof(To) == sizeof(From), "bitcast: expected types of the same size");
  To result;
  __builtin_memcpy(&result, &v, sizeof(To));
  return result;
}

// Masks with one bit for each lane: whether a is greater than b there, and whether a is not zero.
#if defined(BPFA_X86) && BPFA_BYTES == 64
BPFA_INLINE unsigned mask_greater(Vec<float> a, Vec<float> b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}
BPFA_INLINE unsigned mask_greater(Vec<double> a, Vec<double> b) {
  return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ);
}
BPFA_INLINE unsigned mask_nonzero(Vec<float> a) {
  return _mm512_cmp_ps_mask((__m512)a, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}
BPFA_INLINE unsigned mask_nonzero(Vec<double> a) {
  return _mm512_cmp_pd_mask((__m512d)a, _mm512_setzero_pd(), _CMP_NEQ_UQ);
}
#elif defined(BPFA_X86) && BPFA_BYTES == 32
BPFA_INLINE unsigned mask_greater(Vec<float> a, Vec<float> b) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ)));
}
BPFA_INLINE unsigned mask_greater(Vec<double> a, Vec<double> b) {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_GT_OQ)));
}
BPFA_INLINE unsigned mask_nonzero(Vec<float> a) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, _mm256_setzero_ps(), _CMP_NEQ_UQ)));
}
BPFA_INLINE unsigned mask_nonzero(Vec<double> a) {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, _mm256_setzero_pd(), _CMP_NEQ_UQ)));
}
#else
template <class V>
BPFA_INLINE unsigned mask_of(V comparison) {
  unsigned bits = 0;
  constexpr int n = static_cast<int>(sizeof(V) / sizeof(comparison[0]));
  for (int i = 0; i < n; ++i) bits |= static_cast<unsigned>(comparison[i] & 1) << i;
  return bits;
}
BPFA_INLINE unsigned mask_greater(Vec<float> a, Vec<float> b) { return mask_of(a > b); }
BPFA_INLINE unsigned mask_greater(Vec<double> a, Vec<double> b) { return mask_of(a > b); }
BPFA_INLINE unsigned mask_nonzero(Vec<float> a) { return mask_of(a != 0.0f); }
BPFA_INLINE unsigned mask_nonzero(Vec<double> a) { return mask_of(a != 0.0); }
#endif

// The number in a lane that is chosen at run time.
template <class Real>
BPFA_INLINE Real extract(Vec<Real> v, int lane) {
#if defined(BPFA_X86) && BPFA_BYTES == 64
  if constexpr (sizeof(Real) == 4)
    return _mm512_cvtss_f32(_mm512_maskz_compress_ps(static_cast<__mmask16>(1u << lane), (__m512)v));
  else
    return _mm512_cvtsd_f64(_mm512_maskz_compress_pd(static_cast<__mmask8>(1u << lane), (__m512d)v));
#elif defined(BPFA_X86) && BPFA_BYTES == 32
  if constexpr (sizeof(Real) == 4)
    return _mm256_cvtss_f32(_mm256_permutevar8x32_ps((__m256)v, _mm256_set1_epi32(lane)));
  else
    return v[lane];
#else
  return v[lane];
#endif
}

#if defined(BPFA_X86) && BPFA_BYTES == 64
BPFA_INLINE Vec<float> vsqrt(Vec<float> v) { return (Vec<float>)_mm512_sqrt_ps((__m512)v); }
BPFA_INLINE Vec<double> vsqrt(Vec<double> v) { return (Vec<double>)_mm512_sqrt_pd((__m512d)v); }
#else
template <class V>
BPFA_INLINE V vsqrt(V v) {
  constexpr int n = static_cast<int>(sizeof(V) / sizeof(v[0]));
  for (int i = 0; i < n; ++i) v[i] = __builtin_sqrt(v[i]);
  return v;
}
#endif

// While an object of this class exists, subnormal numbers count as zero: x86 takes many times as long to compute with
// them, and features that are nearly off produce many. The bits 0x8040 of the control register flush subnormal results
// to zero and treat subnormal inputs as zero.
class FlushSubnormals {
#if defined(BPFA_X86)
 public:
  BPFA_INLINE FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  BPFA_INLINE ~FlushSubnormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

template <class Real>
BPFA_INLINE Real horizontal_sum(Vec<Real> v) {
  Real sum = 0;
  for (int i = 0; i < lanes<Real>; ++i) sum += v[i];
  return sum;
}

}  // namespace BPFA_ISA
