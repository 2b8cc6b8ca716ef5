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

// Fills `out` with draws from Gamma(shape_i, 1); a shape that is not finite gives NaN.
void gamma_draws(Ndtri* ndtri, const CallKey& key, std::int64_t n, const double* shape, double* out);

}  // namespace bpfa
