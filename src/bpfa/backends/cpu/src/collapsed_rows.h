// Gibbs sampling of z in rows that have the same entries missing, with the weights integrated out; see collapsed.h. The
// lanes of a vector are features.
//
// Everything that does not depend on the values of the rows is computed once for all of them: the matrix T for the
// features that are more likely on than off, which most rows of a dense table differ from in a few features or none.
#pragma once

#include "collapsed.h"
#include "functions.h"
#include "problem.h"

namespace BPFA_ISA {

// The natural logarithm of positive numbers that are not subnormal, to about the last place.
BPFA_INLINE Vec<double> log_of(Vec<double> x) {
  using Integers = Vec<std::int64_t>;
  const Integers bits = bitcast<Integers>(x);
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); the constant holds the bits of sqrt(1/2).
  const Integers e = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const Vec<double> f = bitcast<Vec<double>>(bits - (e << 52)) - 1.0;
  // log m = 2 artanh(s) with s = f / (2 + f), whose series in s^2 <= 0.0295 has eleven terms above the rounding error.
  const Vec<double> s = f / (2.0 + f), z = s * s;
  Vec<double> p = splat(2.0 / 21);
  const double coefficients[] = {2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3};
  for (const double coefficient : coefficients) p = p * z + coefficient;
  const Vec<double> n = __builtin_convertvector(e, Vec<double>);
  // log 2 in two parts, the first with so few bits that its product with n is exact.
  return n * 0x1.62e42feep-1 + (2.0 * s + (p * z * s + n * 0x1.a39ef35793c76p-33));
}

// The matrix T and the vector r of bpfa.model.collapsed for one state z.
struct Tableau {
  int K, KP;
  double* T;     // K x KP
  double* diag;  // KP: the diagonal of T
  double* r;     // KP
  double* on;    // KP: z as ones and zeros

  // Switches feature k on if it is off, and off if it is on. `column` and `factor` are scratch memory, KP each.
  BPFA_INLINE void exchange(int k, double g_w, double* column, double* factor) const {
    constexpr int W = lanes<double>;
    const bool was_on = on[k] != 0;
    // A pivot that is switched on is at least g_w; only rounding can make it smaller.
    const double pivot = was_on || diag[k] > g_w ? diag[k] : g_w;
    const double inverse = 1 / pivot, r_k = r[k], sign = was_on ? -1 : 1;
    double* const row_k = T + static_cast<std::size_t>(k) * KP;
    for (int b = 0; b < KP; b += W) {
      const Vec<double> here = load(row_k + b), scaled = here * inverse;
      store(column + b, here);
      store(factor + b, scaled);
      store(diag + b, load(diag + b) - scaled * here);
      store(r + b, load(r + b) - scaled * r_k);
    }
    for (int i = 0; i < K; ++i) {
      double* const row = T + static_cast<std::size_t>(i) * KP;
      const double f = factor[i];
      for (int b = 0; b < KP; b += W) store(row + b, load(row + b) - f * load(column + b));
      row[k] = sign * f;
    }
    for (int b = 0; b < KP; b += W) store(row_k + b, sign * load(factor + b));
    row_k[k] = diag[k] = -inverse;
    r[k] = sign * r_k * inverse;
    on[k] = was_on ? 0 : 1;
  }

  BPFA_INLINE void copy_from(const Tableau& other) const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(K) * KP; i += lanes<double>) store(T + i, load(other.T + i));
    for (int b = 0; b < KP; b += lanes<double>) {
      store(diag + b, load(other.diag + b));
      store(on + b, load(other.on + b));
    }
  }
};

// What the log odds of each feature need apart from r: log odds = constant + gain r^2.
struct Odds {
  double *constant, *gain;  // KP
};

BPFA_INLINE void derive_odds(const Tableau& t, const double* logit, double g_w, int b, const Odds& odds) {
  const Vec<double> diag = load(t.diag + b);
  const auto on = load(t.on + b) != 0.0;
  // The variance of the weight if the feature is on. It is at most that of the prior.
  Vec<double> variance = vmin<double>(on ? -diag : 1 / diag, splat(1 / g_w));
  variance = vmax<double>(variance, splat(1e-290));
  store(odds.constant + b, load(logit + b) + 0.5 * log_of(g_w * variance));
  store(odds.gain + b, 0.5 * (on ? 1 / variance : variance));
}

// Works on the rows of one pattern, one draw of the globals after another.
class CollapsedPattern {
 public:
  // The number of sweeps whose random words are made together.
  static constexpr int kSweeps = 4;

  CollapsedPattern(const bpfa::PreparedDraws& p, const bpfa::CollapsedRows& rows, const bpfa::Sampling& sampling,
                   const std::uint8_t* observed, char* scratch)
      : p_(p), rows_(rows), sampling_(sampling) {
    const auto take = [&](std::size_t bytes) {
      char* const result = scratch;
      scratch += (bytes + bpfa::kAlignment - 1) / bpfa::kAlignment * bpfa::kAlignment;
      return result;
    };
    const auto doubles = [&](std::size_t n) { return reinterpret_cast<double*>(take(n * sizeof(double))); };
    const std::size_t KP = p.KP, K = p.K;
    Tableau* const tableaux[] = {&shared_, &own_};
    for (Tableau* t : tableaux) *t = {p.K, p.KP, doubles(K * KP), doubles(KP), doubles(KP), doubles(KP)};
    Odds* const both_odds[] = {&shared_odds_, &own_odds_};
    for (Odds* odds : both_odds) *odds = {doubles(KP), doubles(KP)};
    b_ = doubles(KP);
    column_ = doubles(KP);
    factor_ = doubles(KP);
    variance_ = doubles(p.D);
    n_words_ = bpfa::padded(p.K, bpfa::kFeaturePadding);
    words_ = reinterpret_cast<std::uint32_t*>(take(kSweeps * static_cast<std::size_t>(n_words_) * 4));
    fresh_ = reinterpret_cast<bool*>(take(KP));
    seen_ = reinterpret_cast<int*>(take(p.D * sizeof(int)));
    missing_ = reinterpret_cast<int*>(take(p.D * sizeof(int)));
    for (int d = 0; d < p.D; ++d) (observed[d] ? seen_[n_seen_++] : missing_[n_missing_++]) = d;
  }

  static std::size_t scratch_bytes(int K, int D) {
    const std::size_t KP = bpfa::padded(K, bpfa::kAlignment / 8);
    const std::size_t words = bpfa::padded(K, bpfa::kFeaturePadding);
    // The rest is for rounding each array up to the alignment.
    return (2 * KP * KP + 13 * KP + D) * sizeof(double) + kSweeps * words * 4 + KP + 2 * D * sizeof(int) +
           24 * bpfa::kAlignment;
  }

  // Prepares what the rows share under draw v of the globals.
  void begin(int v) {
    phi_t_ = p_.phi_t + static_cast<std::size_t>(v) * p_.D * p_.KP;
    logit_ = p_.logit + static_cast<std::size_t>(v) * p_.KP;
    g_o_ = p_.g_o[v];
    g_w_ = p_.g_w[v];
    draw_ = sampling_.n_before + static_cast<std::uint32_t>(v);
    const double* gram = p_.gram + static_cast<std::size_t>(v) * p_.K * p_.KP;
    if (!(n_missing_ < n_seen_ && fill(gram))) fill(nullptr);
    for (int k = 0; k < p_.K; ++k)
      if (logit_[k] > 0) shared_.exchange(k, g_w_, column_, factor_);
    for (int b = 0; b < p_.KP; b += lanes<double>) derive_odds(shared_, logit_, g_w_, b, shared_odds_);
    for (int j = 0; j < n_missing_; ++j) variance_[j] = variance(shared_, missing_[j]);
  }

  // Continues the chain of row i, and adds what its last state predicts.
  void row(std::int64_t i) {
    owns_ = false;
    project(rows_.values + i * p_.D);
    std::uint8_t* const on = rows_.on + i * p_.K;
    for (int k = 0; k < p_.K; ++k)
      if ((on[k] != 0) != (shared_.on[k] != 0)) exchange(k);
    const bpfa::RowKey key(sampling_.key, static_cast<std::uint64_t>(rows_.ids[i]), draw_);
    for (int first = 1; first <= sampling_.n_sweeps; first += kSweeps) {
      const int n = sampling_.n_sweeps - first + 1 < kSweeps ? sampling_.n_sweeps - first + 1 : kSweeps;
      // The words of several sweeps are made first, since the processor can work on them at the same time.
      for (int j = 0; j < n; ++j)
        row_words(key, bpfa::kUniform, static_cast<std::uint32_t>(first + j), p_.K, words_ + j * n_words_);
      for (int j = 0; j < n; ++j) sweep(words_ + j * n_words_);
    }
    const Tableau& t = owns_ ? own_ : shared_;
    for (int k = 0; k < p_.K; ++k) on[k] = t.on[k] != 0;
    // Welford's update of the mean over draws and of the sum of squares about it.
    const double n = static_cast<double>(draw_) + 1;
    for (int j = 0; j < n_missing_; ++j) {
      const std::size_t at = static_cast<std::size_t>(i) * p_.D + missing_[j];
      const double* phi = phi_t_ + static_cast<std::size_t>(missing_[j]) * p_.KP;
      Vec<double> sum{};
      for (int b = 0; b < p_.KP; b += lanes<double>) sum += load(phi + b) * load(t.on + b) * load(own_.r + b);
      const double mean = horizontal_sum<double>(sum), shift = mean - rows_.mean[at];
      const double within = (owns_ ? variance(own_, missing_[j]) : variance_[j]) + 1 / g_o_;
      rows_.mean[at] += shift / n;
      rows_.squares[at] += shift * (mean - rows_.mean[at]);
      rows_.within[at] += (within - rows_.within[at]) / n;
    }
  }

 private:
  // Sets the shared T to Lambda, with every feature off: from the Gram matrix less the missing columns, or, if `gram`
  // is null, from the observed columns. Returns false if the subtraction cancelled too many digits.
  bool fill(const double* gram) {
    constexpr int W = lanes<double>;
    const int* const columns = gram ? missing_ : seen_;
    const int n = gram ? n_missing_ : n_seen_;
    for (int b = 0; b < p_.KP; b += W) {
      store(shared_.on + b, Vec<double>{});
      store(shared_.r + b, Vec<double>{});
      store(shared_.diag + b, splat(1.0));
    }
    for (int k = 0; k < p_.K; ++k) {
      double* const row = shared_.T + static_cast<std::size_t>(k) * p_.KP;
      for (int b = 0; b < p_.KP; b += W) {
        Vec<double> sum{};
        for (int j = 0; j < n; ++j) {
          const double* phi = phi_t_ + static_cast<std::size_t>(columns[j]) * p_.KP;
          sum += phi[k] * load(phi + b);
        }
        if (gram) sum = load(gram + static_cast<std::size_t>(k) * p_.KP + b) - sum;
        store(row + b, g_o_ * sum);
      }
      // If a feature has nearly all of its length at the missing columns, the difference is mostly rounding error.
      if (gram && row[k] < 1e-8 * g_o_ * gram[static_cast<std::size_t>(k) * (p_.KP + 1)]) return false;
      row[k] += g_w_;
      shared_.diag[k] = row[k];
    }
    return true;
  }

  // r for the shared T: b less T_j b_j for every feature j that is on, or that sum alone where a feature is itself on.
  BPFA_INLINE void project(const double* y) {
    constexpr int W = lanes<double>;
    for (int b = 0; b < p_.KP; b += W) {
      Vec<double> even{}, odd{};
      int j = 0;
      for (; j + 2 <= n_seen_; j += 2) {
        even += y[seen_[j]] * load(phi_t_ + static_cast<std::size_t>(seen_[j]) * p_.KP + b);
        odd += y[seen_[j + 1]] * load(phi_t_ + static_cast<std::size_t>(seen_[j + 1]) * p_.KP + b);
      }
      if (j < n_seen_) even += y[seen_[j]] * load(phi_t_ + static_cast<std::size_t>(seen_[j]) * p_.KP + b);
      store(b_ + b, g_o_ * (even + odd));
    }
    for (int b = 0; b < p_.KP; b += W) {
      Vec<double> even = (1.0 - load(shared_.on + b)) * load(b_ + b), odd{};
      for (int k = 0; k < p_.K; ++k) {
        const Vec<double> term = shared_.on[k] * b_[k] * load(shared_.T + static_cast<std::size_t>(k) * p_.KP + b);
        (k % 2 ? odd : even) -= term;
      }
      store(own_.r + b, even + odd);
    }
  }

  // Switches feature k of the row on or off, in a copy of the shared T.
  void exchange(int k) {
    if (!owns_) own_.copy_from(shared_);
    owns_ = true;
    own_.exchange(k, g_w_, column_, factor_);
    for (int j = 0; j * lanes<double> < p_.KP; ++j) fresh_[j] = false;
  }

  BPFA_INLINE Vec<double> log_odds(int b) {
    if (owns_ && !fresh_[b / lanes<double>]) {
      derive_odds(own_, logit_, g_w_, b, own_odds_);
      fresh_[b / lanes<double>] = true;
    }
    const Odds& odds = owns_ ? own_odds_ : shared_odds_;
    const Vec<double> r = load(own_.r + b);
    return load(odds.constant + b) + load(odds.gain + b) * r * r;
  }

  // Draws z of every feature in turn, given all the others.
  BPFA_INLINE void sweep(const std::uint32_t* words) {
    constexpr int W = lanes<double>;
    constexpr unsigned all = (1u << (W - 1) << 1) - 1u;
    for (int b = 0; b < p_.KP; b += W) {
      Vec<double> odds = log_odds(b);
      unsigned on = mask_nonzero(load((owns_ ? own_ : shared_).on + b));
      // z = 1 if the log odds exceed logit(u). If bounds of logit(u), which cost much less than a logarithm, show that
      // no feature of this register changes, there is nothing to do.
      const Vec<double> u = uniform<double>(words + b);
      const unsigned stay_on = mask_greater(odds, -below_logit<double>(1.0 - u)) & on;
      const unsigned stay_off = ~mask_greater(odds, below_logit<double>(u)) & ~on;
      if (((stay_on | stay_off) & all) == all) continue;
      const Vec<double> threshold = log_of(u / (1.0 - u));
      for (unsigned unvisited = all; unvisited != 0;) {
        const unsigned changed = (mask_greater(odds, threshold) ^ on) & unvisited;
        if (changed == 0) break;
        const int lane = __builtin_ctz(changed);
        exchange(b + lane);
        on ^= 1u << lane;
        // Lanes up to and including this one are done. The shift is made in two steps, because shifting by the full
        // width of the type would be undefined.
        unvisited = ~0u << lane << 1 & all;
        odds = log_odds(b);
      }
    }
  }

  // The variance of an entry without noise, given which features are on.
  BPFA_INLINE double variance(const Tableau& t, int d) const {
    const double* phi = phi_t_ + static_cast<std::size_t>(d) * p_.KP;
    Vec<double> sum{};
    for (int b = 0; b < p_.KP; b += lanes<double>) {
      Vec<double> product{};
      for (int k = 0; k < p_.K; ++k) product += phi[k] * t.on[k] * load(t.T + static_cast<std::size_t>(k) * p_.KP + b);
      sum -= product * load(phi + b) * load(t.on + b);
    }
    return horizontal_sum<double>(sum);
  }

  const bpfa::PreparedDraws& p_;
  const bpfa::CollapsedRows& rows_;
  const bpfa::Sampling& sampling_;
  const double *phi_t_ = nullptr, *logit_ = nullptr;
  double g_o_ = 1, g_w_ = 1;
  std::uint32_t draw_ = 0;
  Tableau shared_, own_;  // own_.r is that of the row even while its T is the shared one
  Odds shared_odds_, own_odds_;
  double *b_, *column_, *factor_, *variance_;
  std::uint32_t* words_;
  int n_words_;
  bool* fresh_;  // for each register of features: whether own_odds_ is that of own_
  int *seen_, *missing_, n_seen_ = 0, n_missing_ = 0;
  bool owns_ = false;  // whether the state of the row differs, or differed, from the shared one
};

inline void collapsed_rows(const bpfa::PreparedDraws& draws, const bpfa::CollapsedRows& rows,
                           const bpfa::Sampling& sampling, const std::int64_t* some, int n, void* scratch) {
  CollapsedPattern pattern(draws, rows, sampling, rows.observed + some[0] * draws.D, static_cast<char*>(scratch));
  for (int v = 0; v < draws.n; ++v) {
    pattern.begin(v);
    for (int j = 0; j < n; ++j) pattern.row(some[j]);
  }
}

}  // namespace BPFA_ISA
