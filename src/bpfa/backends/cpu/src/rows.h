// The correlation c of every feature with the residual of one row, kept up to date while features change.
#pragma once

#include "functions.h"
#include "problem.h"

namespace BPFA_ISA {

using bpfa::Constants;
using bpfa::Globals;

// Number of features rounded up to whole registers; those beyond K are never used.
template <class Real>
BPFA_INLINE int rounded(int n) {
  return bpfa::padded(n, lanes<Real>);
}

template <class Real>
BPFA_INLINE void derive_constants(const Globals<Real>& g, const Constants<Real>& k, int b, Vec<Real> s) {
  const Vec<Real> kappa = g.g_w + g.g_o * s;
  const Vec<Real> inverse = 1 / kappa;
  store(k.odds + b, load(g.logit + b) - Real(0.5) * vlog(kappa / g.g_w));
  // In this order, as the square of g_o alone may leave the range of a float.
  store(k.gain + b, (Real(0.5) * g.g_o) * (g.g_o * inverse));
  store(k.scale + b, g.g_o * inverse);
  store(k.sd + b, vsqrt(inverse));
}

// sum_j weight(j) row_j over the rows of a D x KP matrix, at one register of features.
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

// c_k = phi_k y.
template <class Real>
BPFA_INLINE void project(const Globals<Real>& g, const Real* y, Real* c) {
  constexpr int W = lanes<Real>;
  const int n = rounded<Real>(g.K);
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

// c -= delta G_k.
template <class Real>
BPFA_INLINE void correct(const Globals<Real>& g, int k, Real delta, Real* c) {
  constexpr int W = lanes<Real>;
  const Real* column = g.gram + static_cast<std::size_t>(k) * g.KP;
  for (int b = 0; b < rounded<Real>(g.K); b += W) store(c + b, load(c + b) - delta * load(column + b));
}

// A row without missing entries: phi r itself is kept, one column of the Gram matrix per change.
template <class Real>
struct CompleteRow {
  const Globals<Real>& g;
  Constants<Real> constants;
  Real* c_all;

  static std::size_t scratch(const Globals<Real>& g) { return static_cast<std::size_t>(g.KP); }

  CompleteRow(const Globals<Real>& g, Real* scratch, int*, const Real**)
      : g(g), constants(g.complete), c_all(scratch) {}

  void begin(const Real* y, const std::uint8_t*) { project(g, y, c_all); }

  // phi r, at one register of features.
  BPFA_INLINE Vec<Real> c(int b) const { return load(c_all + b); }

  // What c loses at one register of features when x_k goes up by one.
  BPFA_INLINE Vec<Real> overlap(int k, int b) const { return load(g.gram + static_cast<std::size_t>(k) * g.KP + b); }

  BPFA_INLINE void change(int k, Real delta) { correct(g, k, delta, c_all); }
};

// A row with missing entries, or one for which a Gram matrix would be too large. Columns are kept packed, the observed
// ones or the missing ones, whichever cost less:
// - the residual r of the observed columns, so that missing ones cost nothing;
// - or, for c = phi_o r_o = phi y - G x + phi_m f, the fit f = phi^T x at the missing columns, y being zero there. What
//   is before phi_m f is kept as for a complete row, and r = -f changes with x as a residual does.
template <class Real>
struct MissingRow {
  const Globals<Real>& g;
  Constants<Real> constants;
  int* columns;
  const Real** phi_rows;
  const Real* phi;
  Real *r, *c_all;
  int n = 0, stride;
  bool by_gram = false;

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
    by_gram = g.gram && bpfa::gram_pays(g.K, g.D, n);
    if (by_gram) {
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
    return by_gram ? load(c_all + b) - sum : sum;
  }

  BPFA_INLINE Vec<Real> overlap(int k, int b) const {
    const Real* row = phi + static_cast<std::size_t>(k) * stride;
    const Vec<Real> sum = weighted_sum<Real>(phi_rows, n, b, [&](int j) { return row[columns[j]]; });
    return by_gram ? load(g.gram + static_cast<std::size_t>(k) * g.KP + b) - sum : sum;
  }

  BPFA_INLINE void change(int k, Real delta) {
    const Real* row = phi + static_cast<std::size_t>(k) * stride;
    for (int j = 0; j < n; ++j) r[j] -= delta * row[columns[j]];
    if (by_gram) correct(g, k, delta, c_all);
  }

 private:
  // The columns that are observed, or those that are not.
  void pack(const std::uint8_t* observed, int which) {
    n = 0;
    for (int d = 0; d < g.D; ++d) {
      columns[n] = d;
      n += (observed == nullptr || observed[d] != 0) == which;
    }
  }

  void constants_of_columns() {
    constexpr int W = lanes<Real>;
    const std::size_t KP = static_cast<std::size_t>(g.KP);
    const bool certain = g.s_t == g.phi2_t;
    for (int b = 0; b < rounded<Real>(g.K); b += W) {
      Vec<Real> s{}, s_odd{}, phi2{};
      int j = 0;
      for (; j + 2 <= n; j += 2) {
        s += load(g.s_t + columns[j] * KP + b);
        s_odd += load(g.s_t + columns[j + 1] * KP + b);
      }
      if (j < n) s += load(g.s_t + columns[j] * KP + b);
      s += s_odd;
      if (certain)
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
