// A view of the globals, copied once into the layouts that the kernels read.
#pragma once

#include <algorithm>
#include <limits>

#include "buffer.h"
#include "driver.h"
#include "pool.h"
#include "problem.h"

namespace bpfa {

template <class Real>
class PreparedGlobals {
 public:
  // `complete`: every entry is visible to the local method. `uses_gram`: some rows with missing entries are sampled
  // with the Gram matrix.
  PreparedGlobals(const View& view, bool complete, bool uses_gram, bool gibbs, const Kernels<Real>& kernels,
                  int n_threads)
      : K_(view.K),
        D_(view.D),
        KP_(padded(view.K, kFeaturePadding)),
        DP_(padded(view.D, kColumnPadding)),
        phi_((K_ + std::size_t{1}) * DP_),
        phi2_((K_ + std::size_t{1}) * DP_),
        tiles_(product(K_, DP_)),
        phi_t_(product(D_, KP_)),
        phi2_t_(product(D_, KP_)),
        logit_(KP_) {
    copy_phi(view);
    const double* const v_end = view.v + product(K_, view.v_columns);
    const bool no_variance = std::all_of(view.v, v_end, [](double v) { return v == 0; });
    if (!no_variance) copy_variance(view);
    // The padding features beyond K must never be switched on.
    std::fill(logit_.get(), logit_.get() + KP_, Real(-1e30));
    for (int k = 0; k < K_; ++k) logit_.get()[k] = static_cast<Real>(view.logit[k]);
    globals.K = K_;
    globals.D = D_;
    globals.KP = KP_;
    globals.DP = DP_;
    globals.phi = phi_.get();
    globals.s = no_variance ? phi2_.get() : s_.get();
    globals.phi2 = phi2_.get();
    globals.phi_t = phi_t_.get();
    globals.s_t = no_variance ? phi2_t_.get() : s_t_.get();
    globals.phi2_t = phi2_t_.get();
    globals.logit = logit_.get();
    globals.tiles = tiles_.get();
    globals.g_o = static_cast<Real>(view.g_o);
    globals.g_w = static_cast<Real>(view.g_w);
    if (!complete && !uses_gram) return;
    derive_constants(kernels);
    if (!gibbs)
      derive_overlaps();
    else if (K_ <= kGramFeatures && (complete || gram_keeps_digits()))
      derive_gram(kernels, n_threads);
  }

  Globals<Real> globals{};

 private:
  static std::size_t product(int rows, int columns) { return static_cast<std::size_t>(rows) * columns; }

  // Fills the layouts of phi and of its square.
  void copy_phi(const View& view) {
    // Features are copied in blocks, so that the transposed arrays are written a whole cache line at a time.
    for (int block = 0; block < K_; block += kColumnPadding) {
      const int last = std::min(block + kColumnPadding, K_);
      for (int d = 0; d < D_; ++d) {
        Real* tile = tiles_.get() + product(d / kColumnPadding * K_, kColumnPadding) + d % kColumnPadding;
        for (int k = block; k < last; ++k) {
          const double phi = view.phi[product(k, D_) + d];
          phi_.get()[product(k, DP_) + d] = static_cast<Real>(phi);
          phi2_.get()[product(k, DP_) + d] = static_cast<Real>(phi * phi);
          tile[product(k, kColumnPadding)] = static_cast<Real>(phi);
          phi_t_.get()[product(d, KP_) + k] = static_cast<Real>(phi);
          phi2_t_.get()[product(d, KP_) + k] = static_cast<Real>(phi * phi);
        }
      }
    }
  }

  // Fills the layouts of phi^2 + v.
  void copy_variance(const View& view) {
    s_ = Buffer<Real>((K_ + std::size_t{1}) * DP_);
    s_t_ = Buffer<Real>(product(D_, KP_));
    for (int k = 0; k < K_; ++k)
      for (int d = 0; d < D_; ++d) {
        const double phi = view.phi[product(k, D_) + d];
        const Real s = static_cast<Real>(phi * phi + view.variance(k, d));
        s_.get()[product(k, DP_) + d] = s;
        s_t_.get()[product(d, KP_) + k] = s;
      }
  }

  // Computes the constants of the features for rows without missing entries.
  void derive_constants(const Kernels<Real>& kernels) {
    constants_ = Buffer<Real>(product(6, KP_));
    Real* at = constants_.get();
    Constants<Real>& c = globals.complete;
    for (Real** array : {&c.s, &c.phi2, &c.odds, &c.gain, &c.scale, &c.sd}) {
      *array = at;
      at += KP_;
    }
    kernels.prepare(globals);
  }

  // Whether phi y - G x may be computed over all columns and then corrected for the missing ones. If a feature has
  // nearly all of its length at the missing columns, the corrected value is little more than rounding error. That error
  // must be negligible relative to the prior precision g_w of the feature's weight.
  bool gram_keeps_digits() const {
    const Real longest = *std::max_element(globals.complete.phi2, globals.complete.phi2 + K_);
    return std::numeric_limits<Real>::epsilon() * globals.g_o * longest < Real(0.01) * globals.g_w;
  }

  // Computes the products of every feature with the other one of its pair and with the two of the next pair.
  void derive_overlaps() {
    overlap_ = Buffer<Real>(product(3, KP_));
    globals.overlap = overlap_.get();
    // Features are paired as in variational.h. If their number is odd, the row of zeros after the last feature
    // completes the last pair.
    const int paired = K_ + K_ % 2;
    for (int k = 0; k < paired; ++k) {
      const int next = k + 2 < paired ? k + 2 - k % 2 : 0;
      const int others[] = {k ^ 1, next, next + 1};
      for (int j = 0; j < 3; ++j) {
        const Real* phi = phi_.get() + product(k, DP_);
        const Real* other = phi_.get() + product(others[j], DP_);
        double sum = 0;
        for (int d = 0; d < D_; ++d) sum += static_cast<double>(phi[d]) * other[d];
        overlap_.get()[3 * k + j] = static_cast<Real>(sum);
      }
    }
  }

  // Computes the Gram matrix phi phi^T.
  void derive_gram(const Kernels<Real>& kernels, int n_threads) {
    gram_ = Buffer<Real>(product(K_, KP_));
    globals.gram = gram_.get();
    // A small matrix takes less time than waking a thread.
    const bool pays = static_cast<std::int64_t>(K_) * K_ * D_ > std::int64_t{1} << 18;
    parallel_for(pays ? n_threads : 1, (K_ + kGramRows - 1) / kGramRows, [&](std::int64_t block, int) {
      kernels.gram_rows(globals, static_cast<int>(block) * kGramRows, gram_.get());
    });
  }

  int K_, D_, KP_, DP_;
  Buffer<Real> phi_, phi2_, s_, tiles_, phi_t_, phi2_t_, s_t_, logit_, constants_, overlap_, gram_;
};

}  // namespace bpfa
