// Coordinate ascent: spike-and-slab and mean field (docs/math.md section 4). Every feature of every row moves at
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
  Real* theta;           // K
  Real* m;               // K
  Real* kappa;           // K
  Real* s;               // K, only where entries are missing
  Real* phi2;            // K, likewise
  Real* overlap;         // 3 K, likewise: sum_d o_d phi_kd phi_jd with the features j of its pair and the next
  Real* residual;        // D
  SInt<Real>* observed;  // D: all bits set, or none
};

// sum_d o_d f(d), for every row of the group.
template <class Real, class Term>
BPFA_INLINE Vec<Real> observed_sum(const SInt<Real>* observed, int D, Term f) {
  constexpr int W = lanes<Real>;
  Vec<Real> sum0{}, sum1{};
  for (int d = 0; d < D; ++d) {
    const Vec<Real> term = bitcast<Vec<Real>>(bitcast<Vec<SInt<Real>>>(splat<Real>(f(d))) & load(observed + d * W));
    if (d % 2)
      sum1 += term;
    else
      sum0 += term;
  }
  return sum0 + sum1;
}

template <class Real>
struct Pair {
  Vec<Real> first, second;
};

// Takes what two features explain more out of the residual and correlates two others with it, in one pass.
template <class Real, bool Missing>
BPFA_INLINE Pair<Real> change_and_correlate(const RowGroup<Real> t, int D, int stride, Pair<Real> delta,
                                            const Real* phi, const Real* next) {
  constexpr int W = lanes<Real>;
  Pair<Real> even{}, odd{};
  const auto column = [&](int d, Pair<Real>& sum) {
    Vec<Real> change = delta.first * phi[d] + delta.second * phi[stride + d];
    if constexpr (Missing) change = bitcast<Vec<Real>>(bitcast<Vec<SInt<Real>>>(change) & load(t.observed + d * W));
    const Vec<Real> r = load(t.residual + d * W) - change;
    store(t.residual + d * W, r);
    sum.first += next[d] * r;
    sum.second += next[stride + d] * r;
  };
  int d = 0;
  for (; d + 2 <= D; d += 2) {
    column(d, even);
    column(d + 1, odd);
  }
  if (d < D) column(d, even);
  return {even.first + odd.first, even.second + odd.second};
}

template <class Real, bool MeanField, bool Missing>
void variational_group(const Globals<Real>& globals, const Settings& settings, const bpfa::Rows<Real>& rows,
                       std::int64_t first, int n, const Chunk<Real>& chunk, int slot, const RowOutput<Real>& out,
                       const RowGroup<Real>& group) {
  constexpr int W = lanes<Real>;
  // Copies that nobody else points to, as in gibbs_sweep.
  const Globals<Real> g = globals;
  const RowGroup<Real> t = group;
  const std::size_t K = g.K, D = g.D;
  // Lanes without a row see nothing but zeros.
  for (std::size_t d = 0; d < D; ++d) {
    for (int lane = 0; lane < W; ++lane) {
      const std::size_t at = (first + lane) * D + d;
      t.residual[d * W + lane] = lane < n ? rows.values[at] : Real(0);
      if constexpr (Missing) t.observed[d * W + lane] = lane < n && rows.observed[at] ? -1 : 0;
    }
  }
  // Features go in pairs; the odd one out is paired with a feature of zeros that stays off.
  const std::size_t paired = K + K % 2;
  for (std::size_t k = 0; k < paired; ++k) {
    const Real* phi = g.phi + k * g.DP;
    if constexpr (Missing) {
      const Real *s_k = g.s + k * g.DP, *phi2_k = g.phi2 + k * g.DP;
      const Vec<Real> s = observed_sum<Real>(t.observed, g.D, [&](int d) { return s_k[d]; });
      store(t.s + k * W, s);
      store(t.phi2 + k * W, g.s == g.phi2 ? s : observed_sum<Real>(t.observed, g.D, [&](int d) { return phi2_k[d]; }));
      // With the other feature of its pair, and with both of the next pair.
      const std::size_t next = k + 2 < paired ? k + 2 - k % 2 : 0;
      const Real* others[] = {g.phi + (k ^ 1) * g.DP, g.phi + next * g.DP, g.phi + (next + 1) * g.DP};
      for (int j = k % 2; j < 3; ++j) {
        const Real* other = others[j];
        const auto product = [&](int d) { return phi[d] * other[d]; };
        store(t.overlap + (3 * k + j) * W, observed_sum<Real>(t.observed, g.D, product));
      }
    }
    // x = 0 with theta = 1: each feature is first judged as if it were on.
    Vec<Real> theta = splat(Real(1)), m{};
    if (rows.start_z && k < K) {
      for (int lane = 0; lane < n; ++lane) {
        theta[lane] = rows.start_z[(first + lane) * K + k];
        m[lane] = rows.start_w[(first + lane) * K + k];
      }
      // The second feature of the pair is added with weight zero.
      change_and_correlate<Real, Missing>(t, g.D, 0, {theta * m, Vec<Real>{}}, phi, phi);
    }
    store(t.theta + k * W, theta);
    store(t.m + k * W, m);
  }

  // Sets the factor of feature k to its optimum and returns how much x_k has grown.
  const auto update = [&](std::size_t k, Vec<Real> correlation) {
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
      const Vec<Real> odds = Missing ? g.logit[k] - Real(0.5) * vlog(kappa * (1 / g.g_w)) : splat(g.complete.odds[k]);
      log_odds = odds + Real(0.5) * g.g_o * c * m;
    }
    theta = sigmoid<Real>(log_odds);
    store(t.theta + k * W, theta);
    store(t.m + k * W, m);
    store(t.kappa + k * W, kappa);
    return theta * m - x;
  };
  // sum_d o_d phi_kd phi_jd, with j = 0 the other feature of the pair, 1 and 2 those of the next pair.
  const auto overlap = [&](std::size_t k, int j) {
    if constexpr (Missing)
      return load(t.overlap + (3 * k + j) * W);
    else
      return splat(g.overlap[3 * k + j]);
  };

  // What a pair does to the residual is put into it one pair late, in the pass that correlates the pair after
  // it, so that the pass need not wait for the exponentials; the overlaps make up for the delay.
  Pair<Real> late{};
  const Real* late_phi = g.phi;
  Pair<Real> correlation = change_and_correlate<Real, Missing>(t, g.D, g.DP, late, g.phi, g.phi);
  for (int sweep = 0; sweep < settings.n_sweeps; ++sweep) {
    for (std::size_t k = 0; k < paired; k += 2) {
      const std::size_t next = k + 2 < paired ? k + 2 : 0;
      const Vec<Real> delta0 = update(k, correlation.first);
      const Vec<Real> delta1 = update(k + 1, correlation.second - delta0 * overlap(k, 0));
      correlation = change_and_correlate<Real, Missing>(t, g.D, g.DP, late, late_phi, g.phi + next * g.DP);
      correlation.first -= delta0 * overlap(k, 1) + delta1 * overlap(k + 1, 1);
      correlation.second -= delta0 * overlap(k, 2) + delta1 * overlap(k + 1, 2);
      late = {delta0, delta1};
      late_phi = g.phi + k * g.DP;
    }
  }
  change_and_correlate<Real, Missing>(t, g.D, g.DP, late, late_phi, g.phi);

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
