// Coordinate ascent for the variational methods, spike-and-slab and mean field (docs/math.md section 4). Every feature
// of every row changes at every visit, so here the lanes of a vector are rows: a group of rows goes through the
// features together, and its residual is kept as a matrix of columns x rows.
#pragma once

#include "functions.h"
#include "problem.h"

namespace BPFA_ISA {

using bpfa::Chunk;
using bpfa::Globals;
using bpfa::RowOutput;
using bpfa::Settings;

// The state of a group of rows, transposed: each array has a register, with one lane for each row, for every feature or
// column.
template <class Real>
struct RowGroup {
  Real* theta;           // K
  Real* m;               // K
  Real* kappa;           // K
  Real* s;               // K, only if entries are missing
  Real* phi2;            // K, likewise
  Real* overlap;         // K x 3, likewise: sum_d o_d phi_kd phi_jd, see `overlap` below
  Real* residual;        // D
  SInt<Real>* observed;  // D: all bits are set if observed, and none otherwise
};

// sum_d o_d f(d) for every row of the group. Observed entries are selected by masking bits, which is cheaper than
// multiplying. Even and odd columns have separate sums, so that additions need not wait for each other.
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

// Numbers of a pair of features, for every row of the group.
template <class Real>
struct Pair {
  Vec<Real> first, second;
};

// Subtracts from the residual what the changes `delta` of two features contribute, and computes the correlations of two
// other features with the new residual, all in one pass over the columns.
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

// Updates rows first to first + n - 1, at most as many as a register has lanes, and writes their results.
template <class Real, bool MeanField, bool Missing>
void variational_group(const Globals<Real>& globals, const Settings& settings, const bpfa::Rows<Real>& rows,
                       std::int64_t first, int n, const Chunk<Real>& chunk, int slot, const RowOutput<Real>& out,
                       const RowGroup<Real>& group) {
  constexpr int W = lanes<Real>;
  // Local copies, to which no other pointer leads, for the reason given in gibbs_sweep.
  const Globals<Real> g = globals;
  const RowGroup<Real> t = group;
  const std::size_t K = g.K, D = g.D;
  // Lanes without a row have zeros everywhere.
  for (std::size_t d = 0; d < D; ++d) {
    for (int lane = 0; lane < W; ++lane) {
      const std::size_t at = (first + lane) * D + d;
      t.residual[d * W + lane] = lane < n ? rows.values[at] : Real(0);
      if constexpr (Missing) t.observed[d * W + lane] = lane < n && rows.observed[at] ? -1 : 0;
    }
  }
  // Features are updated in pairs. If their number is odd, the last one is paired with a feature of zeros, which never
  // has any effect.
  const std::size_t paired = K + K % 2;
  for (std::size_t k = 0; k < paired; ++k) {
    const Real* phi = g.phi + k * g.DP;
    if constexpr (Missing) {
      const Real *s_k = g.s + k * g.DP, *phi2_k = g.phi2 + k * g.DP;
      const Vec<Real> s = observed_sum<Real>(t.observed, g.D, [&](int d) { return s_k[d]; });
      store(t.s + k * W, s);
      store(t.phi2 + k * W, g.s == g.phi2 ? s : observed_sum<Real>(t.observed, g.D, [&](int d) { return phi2_k[d]; }));
      // Overlaps with the other feature of its pair, and with both features of the next pair. The second feature of a
      // pair does not need the first of these.
      const std::size_t next = k + 2 < paired ? k + 2 - k % 2 : 0;
      const Real* others[] = {g.phi + (k ^ 1) * g.DP, g.phi + next * g.DP, g.phi + (next + 1) * g.DP};
      for (int j = k % 2; j < 3; ++j) {
        const Real* other = others[j];
        const auto product = [&](int d) { return phi[d] * other[d]; };
        store(t.overlap + (3 * k + j) * W, observed_sum<Real>(t.observed, g.D, product));
      }
    }
    // By default x = 0 with theta = 1, so that each feature is first evaluated as if it were on.
    Vec<Real> theta = splat(Real(1)), m{};
    if (rows.start_z && k < K) {
      for (int lane = 0; lane < n; ++lane) {
        theta[lane] = rows.start_z[(first + lane) * K + k];
        m[lane] = rows.start_w[(first + lane) * K + k];
      }
      // A stride of zero makes the second feature the same as the first; its change is zero.
      change_and_correlate<Real, Missing>(t, g.D, 0, {theta * m, Vec<Real>{}}, phi, phi);
    }
    store(t.theta + k * W, theta);
    store(t.m + k * W, m);
  }

  // Sets the variational distribution of feature k to its optimum and returns the change of E[x_k].
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
      // Without missing entries the logarithm of kappa is the same in every row, and has been computed in advance.
      const Vec<Real> odds = Missing ? g.logit[k] - Real(0.5) * vlog(kappa * (1 / g.g_w)) : splat(g.complete.odds[k]);
      log_odds = odds + Real(0.5) * g.g_o * c * m;
    }
    theta = sigmoid<Real>(log_odds);
    store(t.theta + k * W, theta);
    store(t.m + k * W, m);
    store(t.kappa + k * W, kappa);
    return theta * m - x;
  };
  // sum_d o_d phi_kd phi_jd, where j = 0 stands for the other feature of the pair, and j = 1 and 2 for those of the
  // next pair.
  const auto overlap = [&](std::size_t k, int j) {
    if constexpr (Missing)
      return load(t.overlap + (3 * k + j) * W);
    else
      return splat(g.overlap[3 * k + j]);
  };

  // The changes of a pair are not applied to the residual in the pass right after its update, but in the pass after
  // that. So the pass that computes the correlations of the next pair does not depend on the update just made, and need
  // not wait for its exponentials. The overlaps then correct these correlations for the changes that are not in the
  // residual yet.
  Pair<Real> postponed{};
  const Real* postponed_phi = g.phi;
  Pair<Real> correlation = change_and_correlate<Real, Missing>(t, g.D, g.DP, postponed, g.phi, g.phi);
  for (int sweep = 0; sweep < settings.n_sweeps; ++sweep) {
    for (std::size_t k = 0; k < paired; k += 2) {
      const std::size_t next = k + 2 < paired ? k + 2 : 0;
      const Vec<Real> delta0 = update(k, correlation.first);
      const Vec<Real> delta1 = update(k + 1, correlation.second - delta0 * overlap(k, 0));
      correlation = change_and_correlate<Real, Missing>(t, g.D, g.DP, postponed, postponed_phi, g.phi + next * g.DP);
      correlation.first -= delta0 * overlap(k, 1) + delta1 * overlap(k + 1, 1);
      correlation.second -= delta0 * overlap(k, 2) + delta1 * overlap(k + 1, 2);
      postponed = {delta0, delta1};
      postponed_phi = g.phi + k * g.DP;
    }
  }
  change_and_correlate<Real, Missing>(t, g.D, g.DP, postponed, postponed_phi, g.phi);

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
