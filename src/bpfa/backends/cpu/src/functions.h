// exp, log and the inverse normal distribution function, evaluated in all lanes of a vector. In single precision they
// are polynomials that are accurate to a few units in the last place. Double precision is meant for checking results
// rather than for speed, so there they call libm lane by lane or evaluate a scalar function.
#pragma once

#include <cmath>

#include "philox_vec.h"
#include "vec.h"

namespace BPFA_ISA {

template <class Real>
BPFA_INLINE Vec<Real> vmin(Vec<Real> a, Vec<Real> b) {
  return a < b ? a : b;
}
template <class Real>
BPFA_INLINE Vec<Real> vmax(Vec<Real> a, Vec<Real> b) {
  return a > b ? a : b;
}

BPFA_INLINE Vec<float> vexp(Vec<float> x) {
  x = vmin<float>(vmax<float>(x, splat(-80.0f)), splat(80.0f));
  // x = n log 2 + r with |r| <= log(2)/2. Adding 1.5 * 2^23 leaves a float no bits for a fraction, so adding and
  // subtracting it rounds to the nearest integer. log 2 is subtracted in two parts, the first with so few bits that its
  // product with n is exact.
  const Vec<float> magic = splat(12582912.0f);
  const Vec<float> n = (x * 1.44269504088896341f + magic) - magic;
  const Vec<float> r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Vec<std::int32_t> exponent = (__builtin_convertvector(n, Vec<std::int32_t>) + 127) << 23;
  return p * bitcast<Vec<float>>(exponent);
}

// The argument must be positive and not subnormal.
BPFA_INLINE Vec<float> vlog(Vec<float> x) {
  const Vec<std::int32_t> bits = bitcast<Vec<std::int32_t>>(x);
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); 0x3f3504f3 holds the bits of sqrt(1/2).
  const Vec<std::int32_t> shifted = bits - 0x3f3504f3;
  const Vec<std::int32_t> e = shifted >> 23;
  const Vec<float> f = bitcast<Vec<float>>(bits - (e << 23)) - 1.0f;
  Vec<float> p = f * 7.0376836292e-2f + -1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f + -1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f + -1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f + -2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const Vec<float> n = __builtin_convertvector(e, Vec<float>);
  const Vec<float> f2 = f * f;
  return n * 0.693359375f + (f + (p * f2 * f + (n * -2.12194440e-4f - 0.5f * f2)));
}

BPFA_INLINE Vec<double> vexp(Vec<double> x) {
  for (int i = 0; i < lanes<double>; ++i) x[i] = ::exp(x[i]);
  return x;
}
BPFA_INLINE Vec<double> vlog(Vec<double> x) {
  for (int i = 0; i < lanes<double>; ++i) x[i] = ::log(x[i]);
  return x;
}

template <class Real>
BPFA_INLINE Vec<Real> sigmoid(Vec<Real> x) {
  return 1 / (1 + vexp(-x));
}

// The uniform numbers (word + 1/2) / 2^32 of some random words.
template <class Real>
BPFA_INLINE Vec<Real> uniform(const std::uint32_t* words) {
  constexpr int n = lanes<Real>;
  typedef std::uint32_t LaneWords __attribute__((vector_size(4 * n), aligned(4), may_alias));
  const LaneWords lane_words = *reinterpret_cast<const LaneWords*>(words);
  return (__builtin_convertvector(lane_words, Vec<Real>) + Real(0.5)) * Real(0x1p-32);
}

// log(u) - log(1 - u) for the uniform numbers u of some random words. Since 1 - u is computed from the inverted bits of
// the word, the result is accurate even where u itself would round to one.
template <class Real>
BPFA_INLINE Vec<Real> logit_uniform(const std::uint32_t* words) {
  constexpr int n = lanes<Real>;
  typedef std::uint32_t LaneWords __attribute__((vector_size(4 * n), aligned(4), may_alias));
  const LaneWords lane_words = *reinterpret_cast<const LaneWords*>(words);
  const Vec<Real> u = __builtin_convertvector(lane_words, Vec<Real>) + Real(0.5);
  const Vec<Real> v = __builtin_convertvector(~lane_words, Vec<Real>) + Real(0.5);
  return vlog(u / v);
}

// A lower bound of log(u), and therefore of logit(u), that is much cheaper than a logarithm. The bits of a
// floating-point number, read as an integer, are a linear function of its exponent plus its fraction f, and log2(1 + f)
// >= f, so that integer never exceeds the scaled logarithm. The margin of 1e-4 covers rounding.
template <class Real>
BPFA_INLINE Vec<Real> below_logit(Vec<Real> u) {
  const Vec<Real> bits = __builtin_convertvector(bitcast<Vec<SInt<Real>>>(u), Vec<Real>);
  if constexpr (sizeof(Real) == 4)
    return bits * float(0.6931471805599453 * 0x1p-23) - float(127 * 0.6931471805599453 + 1e-4);
  else
    return bits * (0.6931471805599453 * 0x1p-52) - (1023 * 0.6931471805599453 + 1e-4);
}

// The inverse normal distribution function at (word + 1/2) / 2^32, by Wichura's algorithm AS 241 (1988), PPND16. The
// smallest such argument is 2^-33, so the branch of AS 241 for the far tail is never needed.
BPFA_INLINE double normal_of_word(std::uint32_t word) {
  const double q = (static_cast<double>(word) + 0.5) * 0x1p-32 - 0.5;
  if (q < 0.425 && q > -0.425) {
    const double r = 0.180625 - q * q;
    const double p = (((((((r * 2.5090809287301226727e3 + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r +
                          4.5921953931549871457e4) *
                             r +
                         1.3731693765509461125e4) *
                            r +
                        1.9715909503065514427e3) *
                           r +
                       1.3314166789178437745e2) *
                          r +
                      3.3871328727963666080e0);
    const double d = (((((((r * 5.2264952788528545610e3 + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r +
                          2.1213794301586595867e4) *
                             r +
                         5.3941960214247511077e3) *
                            r +
                        6.8718700749205790830e2) *
                           r +
                       4.2313330701600911252e1) *
                          r +
                      1.0);
    return q * p / d;
  }
  const double tail = (static_cast<double>(word < 0x80000000u ? word : ~word) + 0.5) * 0x1p-32;
  const double r = ::sqrt(-::log(tail)) - 1.6;
  const double p =
      (((((((r * 7.74545014278341407640e-4 + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r +
           1.27045825245236838258e0) *
              r +
          3.64784832476320460504e0) *
             r +
         5.76949722146069140550e0) *
            r +
        4.63033784615654529590e0) *
           r +
       1.42343711074968357734e0);
  const double d =
      (((((((r * 1.05075007164441684324e-9 + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r +
           1.48103976427480074590e-1) *
              r +
          6.89767334985100004550e-1) *
             r +
         1.67638483018380384940e0) *
            r +
        2.05319162663775882187e0) *
           r +
       1.0);
  return word < 0x80000000u ? -p / d : p / d;
}

// The same for a vector of words. In single precision this is PPND7 of AS 241, which is accurate to about seven digits.
template <class Real>
BPFA_INLINE Vec<Real> normal_of_words(const std::uint32_t* words) {
  if constexpr (sizeof(Real) == 4) {
    const Words word = *reinterpret_cast<const Words*>(words);
    const Vec<float> q =
        __builtin_convertvector(bitcast<Vec<std::int32_t>>(word ^ 0x80000000u), Vec<float>) * 0x1p-32f + 0x1p-33f;
    const Vec<float> r = 0.180625f - q * q;
    const Vec<float> central = q *
                               (((r * 5.9109374720e1f + 1.5929113202e2f) * r + 5.0434271938e1f) * r + 3.3871327179e0f) /
                               (((r * 6.7187563600e1f + 7.8757757664e1f) * r + 1.7895169469e1f) * r + 1.0f);
    const Words smaller = word < splat(0x80000000u) ? word : ~word;
    const Vec<float> tail =
        (__builtin_convertvector(bitcast<Vec<std::int32_t>>(smaller), Vec<float>) + 0.5f) * 0x1p-32f;
    const Vec<float> t = vsqrt(-vlog(tail)) - 1.6f;
    const Vec<float> far = (((t * 1.7023821103e-1f + 1.3067284816e0f) * t + 2.7568153900e0f) * t + 1.4234372777e0f) /
                           ((t * 1.2021132975e-1f + 7.3700164250e-1f) * t + 1.0f);
    const Vec<float> outer = q < 0.0f ? -far : far;
    return ((q < 0.425f) & (q > -0.425f)) ? central : outer;
  } else {
    Vec<Real> result;
    for (int i = 0; i < lanes<Real>; ++i) result[i] = normal_of_word(words[i]);
    return result;
  }
}

}  // namespace BPFA_ISA
