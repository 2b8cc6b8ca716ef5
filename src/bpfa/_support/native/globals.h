// Random numbers of the global variables, keyed by step and call as in GlobalDraws of src/bpfa/_support/philox.py.
#pragma once

#include <cstdint>

namespace bpfa {

// The signature of the inverse of the normal distribution function, as SciPy exports it; the second argument is unused.
using Ndtri = double(double, int);

// Identifies the random numbers of one call at one step.
struct CallKey {
  std::uint64_t key;
  std::uint32_t call, step;
};

// Fills `out` with n uniform numbers strictly between 0 and 1, on a grid of 2^32 points.
void uniform_draws(const CallKey& key, std::int64_t n, double* out);

// Fills `out` with n standard normal numbers.
void normal_draws(Ndtri* ndtri, const CallKey& key, std::int64_t n, double* out);

// Fills `out` with draws from Gamma(shape_i, 1); a shape that is not finite gives NaN.
void gamma_draws(Ndtri* ndtri, const CallKey& key, std::int64_t n, const double* shape, double* out);

// A single such draw.
double gamma_number(Ndtri* ndtri, const CallKey& key, double shape);

// What the logarithms of gamma numbers are made of, for rows of n shapes each: the numbers of shape + 1, and uniform
// numbers. Every row takes the numbers of two calls, the first of them `key.call` for the first row.
void log_gamma_parts(Ndtri* ndtri, CallKey key, std::int64_t n_rows, std::int64_t n, const double* shape,
                     double* boosted, double* uniform);

}  // namespace bpfa
