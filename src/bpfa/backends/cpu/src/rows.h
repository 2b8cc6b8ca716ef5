// The correlation phi r of every feature with the residual r of one row, kept up to date while the chain of the row
// changes x. There are two forms with the same interface, for rows without and with missing entries. Throughout, b is
// the first feature of a vector register.
#pragma once

#include "functions.h"
#include "problem.h"

namespace BPFA_ISA {

using bpfa::Constants;
using bpfa::Globals;

// The number of features rounded up to whole registers. Results for features beyond K are never used.
template <class Real>
BPFA_INLINE int rounded_up(int n) {
  return bpfa::padded(n, lanes<Real>);
}

// Computes the constants that depend on s, for one register of features.
template <class Real>
BPFA_INLINE void derive_constants(const Globals<Real>& g, const Constants<Real>& k, int b, Vec<Real> s) {
  const Vec<Real> kappa = g.g_w + g.g_o * s;
  const Vec<Real> inverse = 1 / kappa;
  store(k.odds + b, load(g.logit + b) - Real(0.5) * vlog(kappa / g.g_w));
  // Multiplied in this order because g_o^2 alone may exceed the range of a float.
  store(k.gain + b, (Real(0.5) * g.g_o) * (g.g_o * inverse));
  store(k.scale + b, g.g_o * inverse);
  store(k.sd + b, vsqrt(inverse));
}

// sum_j weight(j) row_j, where the rows are those of a D x KP matrix, for one register of features. Four partial sums
// are independent of one another, so that additions need not wait for each other.
template <class Real, class Weight>
BPFA_INLINE Vec<Real> weighted_sum(const Real* const* rows, int n, int b, Weight weight) {
  Vec<Real> sum0{}, sum1{}, sum2{}, sum3{};
  int j = 0;
  for (; j + 4 <= n; j += 4) {
    sum0 += weight(j) * load(rows[j] + b);
    sum1 += weight(j + 1) * load(rows[j + 1] + b);
    sum2 += weight(j + 2) * load(rows[j + 2] + b);
    sum3 += weight(j + 3) * load(rows[j + 3] + b);
  }
  for (; j < n; ++j) sum0 += weight(j) * load(rows[j] + b);
  return (sum0 + sum1) + (sum2 + sum3);
}

// c_k = phi_k y for all features.
template <class Real>
BPFA_INLINE void project(const Globals<Real>& g, const Real* y, Real* c) {
  constexpr int W = lanes<Real>;
  const int n = rounded_up<Real>(g.K);
  int b = 0;
  for (; b + 4 * W <= n; b += 4 * W) {
    Vec<Real> sum0{}, sum1{}, sum2{}, sum3{};
    for (int d = 0; d < g.D; ++d) {
      const Real* p = g.phi_t + static_cast<std::size_t>(d) * g.KP + b;
      sum0 += y[d] * load(p);
      sum1 += y[d] * load(p + W);
      sum2 += y[d] * load(p + 2 * W);
      sum3 += y[d] * load(p + 3 * W);
    }
    store(c + b, sum0);
    store(c + b + W, sum1);
    store(c + b + 2 * W, sum2);
    store(c + b + 3 * W, sum3);
  }
  for (; b < n; b += W) {
    Vec<Real> sum{};
    for (int d = 0; d < g.D; ++d) sum += y[d] * load(g.phi_t + static_cast<std::size_t>(d) * g.KP + b);
    store(c + b, sum);
  }
}

// c -= delta G_k, where G_k is row k of the Gram matrix.
template <class Real>
BPFA_INLINE void subtract_gram_row(const Globals<Real>& g, int k, Real delta, Real* c) {
  constexpr int W = lanes<Real>;
  const Real* gram_row = g.gram + static_cast<std::size_t>(k) * g.KP;
  for (int b = 0; b < rounded_up<Real>(g.K); b += W) store(c + b, load(c + b) - delta * load(gram_row + b));
}

// A row without missing entries. phi r is kept for all features, and every change of x subtracts a row of the Gram
// matrix from it.
template <class Real>
struct CompleteRow {
  const Globals<Real>& g;
  Constants<Real> constants;
  Real* c_all;

  static std::size_t scratch(const Globals<Real>& g) { return static_cast<std::size_t>(g.KP); }

  CompleteRow(const Globals<Real>& g, Real* scratch, int*, const Real**)
      : g(g), constants(g.complete), c_all(scratch) {}

  void begin(const Real* y, const std::uint8_t*) { project(g, y, c_all); }

  // phi r for one register of features.
  BPFA_INLINE Vec<Real> c(int b) const { return load(c_all + b); }

  // What c loses at one register of features when x_k increases by one.
  BPFA_INLINE Vec<Real> overlap(int k, int b) const { return load(g.gram + static_cast<std::size_t>(k) * g.KP + b); }

  BPFA_INLINE void change(int k, Real delta) { subtract_gram_row(g, k, delta, c_all); }
};

// A row with missing entries, or one for which a Gram matrix would be too large. It keeps a packed list of columns, the
// observed ones or the missing ones, whichever costs less:
// - With the observed columns, r is their residual, and missing columns cost nothing.
// - With the missing columns, phi_o r_o = phi y - G x + phi_m f is used, where f = phi^T x is the fit at the missing
//   columns and y is zero there. phi y - G x is kept in c_all, as for a complete row. The array r then holds -f, which
//   starts at zero and changes with x exactly as a residual does.
template <class Real>
struct MissingRow {
  const Globals<Real>& g;
  Constants<Real> constants;
  int* columns;           // the columns that are kept
  const Real** phi_rows;  // phi_t at each of them
  const Real* phi;
  Real *r, *c_all;
  int n = 0, stride;  // the number of columns that are kept, and the stride of phi
  bool uses_gram = false;

  static std::size_t scratch(const Globals<Real>& g) { return 7 * static_cast<std::size_t>(g.KP) + g.DP; }

  MissingRow(const Globals<Real>& g, Real* scratch, int* columns, const Real** phi_rows)
      : g(g), columns(columns), phi_rows(phi_rows), phi(g.phi), stride(g.DP) {
    Real** const arrays[] = {&constants.s,     &constants.phi2, &constants.odds, &constants.gain,
                             &constants.scale, &constants.sd,   &c_all};
    for (Real** array : arrays) {
      *array = scratch;
      scratch += g.KP;
    }
    r = scratch;
  }

  void begin(const Real* y, const std::uint8_t* observed) {
    pack(observed, 1);
    constants_of_columns();
    uses_gram = g.gram && bpfa::gram_pays(g.K, g.D, n);
    if (uses_gram) {
      pack(observed, 0);
      project(g, y, c_all);
    }
    for (int j = 0; j < n; ++j) {
      phi_rows[j] = g.phi_t + static_cast<std::size_t>(columns[j]) * g.KP;
      r[j] = y[columns[j]];
    }
  }

  BPFA_INLINE Vec<Real> c(int b) const {
    const Vec<Real> sum = weighted_sum<Real>(phi_rows, n, b, [&](int j) { return r[j]; });
    return uses_gram ? load(c_all + b) - sum : sum;
  }

  BPFA_INLINE Vec<Real> overlap(int k, int b) const {
    const Real* row = phi + static_cast<std::size_t>(k) * stride;
    const Vec<Real> sum = weighted_sum<Real>(phi_rows, n, b, [&](int j) { return row[columns[j]]; });
    return uses_gram ? load(g.gram + static_cast<std::size_t>(k) * g.KP + b) - sum : sum;
  }

  BPFA_INLINE void change(int k, Real delta) {
    const Real* row = phi + static_cast<std::size_t>(k) * stride;
    for (int j = 0; j < n; ++j) r[j] -= delta * row[columns[j]];
    if (uses_gram) subtract_gram_row(g, k, delta, c_all);
  }

 private:
  // Lists the observed columns if `wanted` is 1, and the missing ones if it is 0. Every column is written, and the end
  // of the list moves only if it is wanted, which avoids a branch.
  void pack(const std::uint8_t* observed, int wanted) {
    n = 0;
    for (int d = 0; d < g.D; ++d) {
      columns[n] = d;
      n += (observed == nullptr || observed[d] != 0) == wanted;
    }
  }

  // Computes the constants of the features from the columns in the list, which must be the observed ones.
  void constants_of_columns() {
    constexpr int W = lanes<Real>;
    const std::size_t KP = static_cast<std::size_t>(g.KP);
    const bool no_variance = g.s_t == g.phi2_t;
    for (int b = 0; b < rounded_up<Real>(g.K); b += W) {
      Vec<Real> s{}, s_odd{}, phi2{};
      int j = 0;
      for (; j + 2 <= n; j += 2) {
        s += load(g.s_t + columns[j] * KP + b);
        s_odd += load(g.s_t + columns[j + 1] * KP + b);
      }
      if (j < n) s += load(g.s_t + columns[j] * KP + b);
      s += s_odd;
      if (no_variance)
        phi2 = s;
      else
        for (j = 0; j < n; ++j) phi2 += load(g.phi2_t + columns[j] * KP + b);
      store(constants.s + b, s);
      store(constants.phi2 + b, phi2);
      derive_constants(g, constants, b, s);
    }
  }
};

}  // namespace BPFA_ISA
