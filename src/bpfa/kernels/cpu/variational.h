// Coordinate ascent: spike-and-slab and mean field (MATH.md section 4). Every feature of every row moves at
// every visit, so lanes are rows here: a group of rows goes through the features together, its residual kept
// as a tile of columns x rows.
#pragma once

#include "functions.h"
#include "problem.h"

namespace BPFA_ISA {

using bpfa::Chunk;
using bpfa::Globals;
using bpfa::RowOutput;
using bpfa::Settings;

// A group of rows, transposed: each array has one register of rows for every feature or column.
template <class Real>
struct RowGroup {
  Real* theta;          // K
  Real* m;              // K
  Real* kappa;          // K
  Real* s;              // K, only where entries are missing
  Real* phi2;           // K, likewise
  Real* residual;       // D
  SInt<Real>* observed; // D: all bits set, or none
};

// sum_d o_d f_d, for every row of the group.
template <class Real>
BPFA_INLINE Vec<Real> observed_sum(const Real* f, const SInt<Real>* observed, int D) {
  constexpr int W = lanes<Real>;
  Vec<Real> sum0{}, sum1{};
  for (int d = 0; d < D; ++d) {
    const Vec<Real> term = bitcast<Vec<Real>>(bitcast<Vec<SInt<Real>>>(splat(f[d])) & load(observed + d * W));
    if (d % 2)
      sum1 += term;
    else
      sum0 += term;
  }
  return sum0 + sum1;
}

// Takes delta phi out of the residual and returns next . residual, in one pass over the tile.
template <class Real, bool Missing>
BPFA_INLINE Vec<Real> change_and_correlate(const RowGroup<Real>& t, int D, Vec<Real> delta, const Real* phi,
                                           const Real* next) {
  constexpr int W = lanes<Real>;
  Vec<Real> sum[4] = {};
  const auto column = [&](int d, Vec<Real>& into) {
    Vec<Real> change = delta * phi[d];
    if constexpr (Missing)
      change = bitcast<Vec<Real>>(bitcast<Vec<SInt<Real>>>(change) & load(t.observed + d * W));
    const Vec<Real> r = load(t.residual + d * W) - change;
    store(t.residual + d * W, r);
    into += next[d] * r;
  };
  int d = 0;
  for (; d + 4 <= D; d += 4)
    for (int j = 0; j < 4; ++j) column(d + j, sum[j]);
  for (; d < D; ++d) column(d, sum[0]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

template <class Real, bool MeanField, bool Missing>
void variational_group(const Globals<Real>& g, const Settings& settings, const bpfa::Rows<Real>& rows,
                       std::int64_t first, int n, const Chunk<Real>& chunk, int slot, const RowOutput<Real>& out,
                       const RowGroup<Real>& t) {
  constexpr int W = lanes<Real>;
  const std::size_t K = g.K, D = g.D;
  // Lanes without a row see nothing but zeros.
  for (std::size_t d = 0; d < D; ++d) {
    for (int lane = 0; lane < W; ++lane) {
      const std::size_t at = (first + lane) * D + d;
      t.residual[d * W + lane] = lane < n ? rows.values[at] : Real(0);
      if constexpr (Missing) t.observed[d * W + lane] = lane < n && rows.observed[at] ? -1 : 0;
    }
  }
  for (std::size_t k = 0; k < K; ++k) {
    if constexpr (Missing) {
      const Vec<Real> s = observed_sum(g.s + k * g.DP, t.observed, g.D);
      store(t.s + k * W, s);
      store(t.phi2 + k * W, g.s == g.phi2 ? s : observed_sum(g.phi2 + k * g.DP, t.observed, g.D));
    }
    if (rows.start_z) {
      Vec<Real> theta{}, m{};
      for (int lane = 0; lane < n; ++lane) {
        theta[lane] = rows.start_z[(first + lane) * K + k];
        m[lane] = rows.start_w[(first + lane) * K + k];
      }
      store(t.theta + k * W, theta);
      store(t.m + k * W, m);
      change_and_correlate<Real, Missing>(t, g.D, theta * m, g.phi + k * g.DP, g.phi + k * g.DP);
    } else {
      // x = 0 with theta = 1: each feature is first judged as if it were on.
      store(t.theta + k * W, splat(Real(1)));
      store(t.m + k * W, Vec<Real>{});
    }
  }

  Vec<Real> correlation = change_and_correlate<Real, Missing>(t, g.D, Vec<Real>{}, g.phi, g.phi);
  for (int sweep = 0; sweep < settings.n_sweeps; ++sweep) {
    for (std::size_t k = 0; k < K; ++k) {
      Vec<Real> s, phi2;
      if constexpr (Missing) {
        s = load(t.s + k * W);
        phi2 = load(t.phi2 + k * W);
      } else {
        s = splat(g.complete.s[k]);
        phi2 = splat(g.complete.phi2[k]);
      }
      Vec<Real> theta = load(t.theta + k * W), m = load(t.m + k * W);
      const Vec<Real> x = theta * m;
      const Vec<Real> c = correlation + x * phi2;
      const Vec<Real> kappa = g.g_w + g.g_o * (MeanField ? theta * s : s);
      const Vec<Real> variance = 1 / kappa;
      Vec<Real> log_odds;
      if constexpr (MeanField) {
        m = g.g_o * theta * c * variance;
        log_odds = g.logit[k] + g.g_o * (m * c - Real(0.5) * (m * m + variance) * s);
      } else {
        m = g.g_o * c * variance;
        // Without missing entries the logarithm of kappa is the same in every row.
        const Vec<Real> odds =
            Missing ? g.logit[k] - Real(0.5) * vlog(kappa * (1 / g.g_w)) : splat(g.complete.odds[k]);
        log_odds = odds + Real(0.5) * g.g_o * c * m;
      }
      theta = sigmoid<Real>(log_odds);
      store(t.theta + k * W, theta);
      store(t.m + k * W, m);
      store(t.kappa + k * W, kappa);
      const std::size_t next = k + 1 < K ? k + 1 : 0;
      correlation = change_and_correlate<Real, Missing>(t, g.D, theta * m - x, g.phi + k * g.DP, g.phi + next * g.DP);
    }
  }

  double w2[W] = {};
  for (std::size_t k = 0; k < K; ++k) {
    const Vec<Real> theta = load(t.theta + k * W), m = load(t.m + k * W), kappa = load(t.kappa + k * W);
    const Vec<Real> second = m * m + 1 / kappa;
    const Vec<Real> x = theta * m, zw2 = theta * second;
    for (int lane = 0; lane < n; ++lane) {
      if (chunk.theta) {
        const std::size_t at = static_cast<std::size_t>(slot + lane) * g.KP + k;
        chunk.theta[at] = theta[lane];
        chunk.x[at] = x[lane];
        chunk.zw2[at] = zw2[lane];
        w2[lane] += second[lane];
      }
      if (out.z) {
        const std::size_t at = static_cast<std::size_t>(first + lane) * K + k;
        out.z[at] = theta[lane];
        out.x[at] = m[lane];
        out.zw2[at] = kappa[lane];
      }
    }
  }
  if (chunk.theta) {
    for (int lane = 0; lane < n; ++lane) {
      chunk.w2[slot + lane] = w2[lane];
      Real* residual = chunk.residual + static_cast<std::size_t>(slot + lane) * g.DP;
      for (std::size_t d = 0; d < D; ++d) residual[d] = t.residual[d * W + lane];
    }
  }
}

}  // namespace BPFA_ISA
