// Random numbers of the global variables; see globals.h.
#include "globals.h"

#include <cmath>
#include <limits>

#include "philox.h"

namespace bpfa {

namespace {

// The kind of draw in the counter, and the most attempts that it has room for; the values are those in
// src/bpfa/_support/philox.py.
constexpr std::uint32_t kGlobal = 4, kAttempts = 1 << 16;

Block words_of(const CallKey& key, std::uint32_t block, std::uint32_t attempt) {
  return philox4x32({{block, kGlobal << 16 | attempt, key.call, key.step}}, static_cast<std::uint32_t>(key.key),
                    static_cast<std::uint32_t>(key.key >> 32));
}

double uniform(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }

// A draw by the method of Marsaglia & Tsang, "A simple method for generating gamma variables", ACM Transactions on
// Mathematical Software 26 (2000). Each attempt takes a normal and a uniform number. If G ~ Gamma(s + 1) and U is
// uniform, then G U^(1/s) ~ Gamma(s), which serves for shapes below one.
double gamma_draw(Ndtri* ndtri, const CallKey& key, std::uint32_t index, double shape) {
  if (!std::isfinite(shape)) return std::numeric_limits<double>::quiet_NaN();
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3.0, c = 1 / std::sqrt(9 * d);
  double boost = 1;
  for (std::uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    const Block words = words_of(key, index, attempt);
    if (attempt == 0 && shape < 1) boost = std::pow(uniform(words.word[2]), 1 / shape);
    const double normal = ndtri(uniform(words.word[0]), 0), root = 1 + c * normal;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(uniform(words.word[1])) < 0.5 * normal * normal + d - d * v + d * std::log(v)) return d * v * boost;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void uniform_draws(const CallKey& key, std::int64_t n, double* out) {
  for (std::int64_t i = 0; i < n; i += 4) {
    const Block words = words_of(key, static_cast<std::uint32_t>(i / 4), 0);
    for (int j = 0; j < 4 && i + j < n; ++j) out[i + j] = uniform(words.word[j]);
  }
}

void normal_draws(Ndtri* ndtri, const CallKey& key, std::int64_t n, double* out) {
  uniform_draws(key, n, out);
  for (std::int64_t i = 0; i < n; ++i) out[i] = ndtri(out[i], 0);
}

void gamma_draws(Ndtri* ndtri, const CallKey& key, std::int64_t n, const double* shape, double* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = gamma_draw(ndtri, key, static_cast<std::uint32_t>(i), shape[i]);
}

double gamma_number(Ndtri* ndtri, const CallKey& key, double shape) { return gamma_draw(ndtri, key, 0, shape); }

void log_gamma_parts(Ndtri* ndtri, CallKey key, std::int64_t n_rows, std::int64_t n, const double* shape,
                     double* boosted, double* uniform) {
  for (std::int64_t row = 0; row < n_rows; ++row, shape += n, boosted += n, uniform += n) {
    for (std::int64_t i = 0; i < n; ++i)
      boosted[i] = gamma_draw(ndtri, key, static_cast<std::uint32_t>(i), shape[i] + 1);
    ++key.call;
    uniform_draws(key, n, uniform);
    ++key.call;
  }
}

}  // namespace bpfa
