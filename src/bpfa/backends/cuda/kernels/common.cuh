// What all kernels share: the type of their numbers, shared memory, random numbers that are a function of a counter,
// and sums over the lanes of a warp.
#pragma once

#ifndef REAL
#define REAL float
#endif
typedef REAL real;
typedef long long int64;

#define EVERY_LANE 0xffffffffu
// The number of lanes that work on one row of the data in gibbs.cu. By default it is half a warp, because the random
// words of 64 features come from sixteen blocks of Philox. It may be a whole warp; its two halves then look at the same
// features, and each of them holds half of the row's observed columns.
#ifndef ROW_LANES
#define ROW_LANES 16
#endif

// --- numbers -------------------------------------------------------------------------------------------------

#define LOG2_E 1.4426950408889634

__device__ inline float power_of_2(float x) { return exp2f(x); }
__device__ inline double power_of_2(double x) { return exp2(x); }
__device__ inline float log_2(float x) { return log2f(x); }
__device__ inline double log_2(double x) { return log2(x); }
__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }
// A number that is practically zero but not zero: x = 0 means that a feature is off, so a feature that is on must have
// a weight other than zero.
__device__ inline float smallest(float) { return 1e-37f; }
__device__ inline double smallest(double) { return 1e-300; }

// --- shared memory -------------------------------------------------------------------------------------------

// Access to shared memory by 32-bit addresses. Computing with them takes fewer instructions and registers than
// computing with generic 64-bit pointers, to which the base of shared memory has to be added.
__device__ inline unsigned shared_address(const void* memory) {
  return static_cast<unsigned>(__cvta_generic_to_shared(memory));
}
template <class Number>
__device__ inline Number& at_shared(unsigned address) {
  return *static_cast<Number*>(__cvta_shared_to_generic(address));
}

// --- steps ---------------------------------------------------------------------------------------------------

// The number and the size of a step, in the memory of the device. A recorded graph of kernels is replayed with the
// arguments it was recorded with, so what differs between steps must be read from memory. Other launches pass both as
// arguments and a null pointer instead of a StepOnDevice.
struct StepOnDevice {
  double rho;
  unsigned step;
};

// Called wherever the number of the step is needed, because keeping it in a register throughout a kernel would leave
// one register fewer for everything else.
__device__ inline unsigned step_of(const StepOnDevice* stored, unsigned step) { return stored ? stored->step : step; }

// --- random numbers: see src/bpfa/_support/philox.py ----------------------------------------------------------

// Kinds of draw, which keep the random words of different uses apart.
enum Kind { UNIFORM = 0, NORMAL = 1, GLOBAL = 4 };

// Philox4x32-10: turns the four words of a counter into four random words.
__device__ inline uint4 philox(uint4 x, unsigned key0, unsigned key1) {
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    const unsigned high0 = __umulhi(0xD2511F53u, x.x), low0 = 0xD2511F53u * x.x;
    const unsigned high1 = __umulhi(0xCD9E8D57u, x.z), low1 = 0xCD9E8D57u * x.z;
    x = make_uint4(high1 ^ x.y ^ key0, low1, high0 ^ x.w ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return x;
}

// The random words of features 64 g + 16 j + i of one row, for j = 0..3.
__device__ inline uint4 row_words(Kind kind, int sweep, int64 id, unsigned step, int g, int i, unsigned key0,
                                  unsigned key1) {
  const unsigned high = static_cast<unsigned>(id >> 32) << 24;
  return philox(make_uint4(16 * g + i, high | kind << 16 | sweep, static_cast<unsigned>(id), step), key0, key1);
}

// Word j of a block.
__device__ inline unsigned word_of(uint4 words, int j) {
  const unsigned low = j & 1 ? words.y : words.x, high = j & 1 ? words.w : words.z;
  return j & 2 ? high : low;
}

// The inverse normal distribution function at (word + 1/2) / 2^32, by Wichura's algorithm AS 241 (1988), PPND16. The
// second argument only selects the precision.
__device__ inline double normal_of_word(unsigned word, double) {
  const double q = (word + 0.5) * 0x1p-32 - 0.5;
  if (fabs(q) < 0.425) {
    const double r = 0.180625 - q * q;
    const double p = ((((((r * 2.5090809287301226727e3 + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r +
                         4.5921953931549871457e4) *
                            r +
                        1.3731693765509461125e4) *
                           r +
                       1.9715909503065514427e3) *
                          r +
                      1.3314166789178437745e2) *
                         r +
                     3.3871328727963666080e0;
    const double d = ((((((r * 5.2264952788528545610e3 + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r +
                         2.1213794301586595867e4) *
                            r +
                        5.3941960214247511077e3) *
                           r +
                       6.8718700749205790830e2) *
                          r +
                      4.2313330701600911252e1) *
                         r +
                     1.0;
    return q * p / d;
  }
  const double tail = ((word < 0x80000000u ? word : ~word) + 0.5) * 0x1p-32;
  const double r = sqrt(-log(tail)) - 1.6;
  const double p =
      ((((((r * 7.74545014278341407640e-4 + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r +
          1.27045825245236838258e0) *
             r +
         3.64784832476320460504e0) *
            r +
        5.76949722146069140550e0) *
           r +
       4.63033784615654529590e0) *
          r +
      1.42343711074968357734e0;
  const double d =
      ((((((r * 1.05075007164441684324e-9 + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r +
          1.48103976427480074590e-1) *
             r +
         6.89767334985100004550e-1) *
            r +
        1.67638483018380384940e0) *
           r +
       2.05319162663775882187e0) *
          r +
      1.0;
  return word < 0x80000000u ? -p / d : p / d;
}

// The same to seven digits: by Giles's approximation of erfinv (2010), except in the tails, where PPND7 of AS 241 is
// used. Only one number in 300 is in the tails, so the lanes of a warp seldom have to wait for both branches.
__device__ inline float normal_of_word(unsigned word, float) {
  const bool below = word < 0x80000000u;
  const float tail = (static_cast<float>(below ? word : ~word) + 0.5f) * 0x1p-32f;
  // w = -log(1 - (2 u - 1)^2), the variable of Giles's polynomial.
  const float w = -0.693147180559945f * log2f(4.0f * tail * (1.0f - tail));
  if (w < 5.0f) {
    const float x = static_cast<float>(static_cast<int>(word ^ 0x80000000u)) * 0x1p-31f + 0x1p-32f, t = w - 2.5f;
    float p = 2.81022636e-08f;
    p = 3.43273939e-07f + p * t;
    p = -3.5233877e-06f + p * t;
    p = -4.39150654e-06f + p * t;
    p = 0.00021858087f + p * t;
    p = -0.00125372503f + p * t;
    p = -0.00417768164f + p * t;
    p = 0.246640727f + p * t;
    p = 1.50140941f + p * t;
    return 1.41421356237f * p * x;
  }
  const float t = sqrtf(-logf(tail)) - 1.6f;
  const float far = (((t * 1.7023821103e-1f + 1.3067284816e0f) * t + 2.7568153900e0f) * t + 1.4234372777e0f) /
                    ((t * 1.2021132975e-1f + 7.3700164250e-1f) * t + 1.0f);
  return below ? -far : far;
}

// --- lanes ---------------------------------------------------------------------------------------------------

// The sum over the lanes of a row or of a warp, in a fixed order; every lane gets the result.
template <int Lanes, class Number>
__device__ inline Number lane_sum(Number x) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(EVERY_LANE, x, offset);
  return x;
}

// A feature that is on in a kept sample of a row, and its weight. The alignment allows both to be read at once.
struct alignas(2 * sizeof(real)) Entry {
  int feature;
  real weight;
};
