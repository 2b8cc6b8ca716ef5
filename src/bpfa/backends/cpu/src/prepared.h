// A view of the globals in the layouts that the kernels want.
#pragma once

#include <algorithm>
#include <limits>

#include "buffer.h"
#include "driver.h"
#include "problem.h"

namespace bpfa {

template <class Real>
class PreparedGlobals {
 public:
  // `by_gram`: some rows with missing entries are done by the Gram matrix.
  PreparedGlobals(const View& view, bool complete, bool by_gram, bool gibbs, const Kernels<Real>& kernels,
                  int n_threads)
      : K_(view.K),
        D_(view.D),
        KP_(padded(view.K, kFeaturePadding)),
        DP_(padded(view.D, kColumnPadding)),
        phi_((K_ + std::size_t{1}) * DP_),
        phi2_((K_ + std::size_t{1}) * DP_),
        tiles_(size(K_, DP_)),
        phi_t_(size(D_, KP_)),
        phi2_t_(size(D_, KP_)),
        logit_(KP_) {
    const bool certain = copy_phi(view);
    if (!certain) copy_variance(view);
    // A feature beyond K never wins.
    std::fill(logit_.get(), logit_.get() + KP_, Real(-1e30));
    for (int k = 0; k < K_; ++k) logit_.get()[k] = static_cast<Real>(view.logit[k]);
    globals.K = K_;
    globals.D = D_;
    globals.KP = KP_;
    globals.DP = DP_;
    globals.phi = phi_.get();
    globals.s = certain ? phi2_.get() : s_.get();
    globals.phi2 = phi2_.get();
    globals.phi_t = phi_t_.get();
    globals.s_t = certain ? phi2_t_.get() : s_t_.get();
    globals.phi2_t = phi2_t_.get();
    globals.logit = logit_.get();
    globals.tiles = tiles_.get();
    globals.g_o = static_cast<Real>(view.g_o);
    globals.g_w = static_cast<Real>(view.g_w);
    if (!complete && !by_gram) return;
    derive_constants(kernels);
    if (!gibbs)
      derive_overlaps();
    else if (K_ <= kGramFeatures && (complete || leaves_digits()))
      derive_gram(kernels, n_threads);
  }

  Globals<Real> globals{};

 private:
  static std::size_t size(int rows, int columns) { return static_cast<std::size_t>(rows) * columns; }

  // Fills the layouts of phi and of its square; returns whether phi has no variance.
  bool copy_phi(const View& view) {
    bool certain = true;
    // Blocks of features, so that the transposed arrays are written a cache line at a time.
    for (int block = 0; block < K_; block += kColumnPadding) {
      const int last = std::min(block + kColumnPadding, K_);
      for (int d = 0; d < D_; ++d) {
        Real* tile = tiles_.get() + size(d / kColumnPadding * K_, kColumnPadding) + d % kColumnPadding;
        for (int k = block; k < last; ++k) {
          const double phi = view.phi[size(k, D_) + d];
          certain = certain && view.v[size(k, D_) + d] == 0;
          phi_.get()[size(k, DP_) + d] = static_cast<Real>(phi);
          phi2_.get()[size(k, DP_) + d] = static_cast<Real>(phi * phi);
          tile[size(k, kColumnPadding)] = static_cast<Real>(phi);
          phi_t_.get()[size(d, KP_) + k] = static_cast<Real>(phi);
          phi2_t_.get()[size(d, KP_) + k] = static_cast<Real>(phi * phi);
        }
      }
    }
    return certain;
  }

  void copy_variance(const View& view) {
    s_ = Buffer<Real>((K_ + std::size_t{1}) * DP_);
    s_t_ = Buffer<Real>(size(D_, KP_));
    for (int k = 0; k < K_; ++k)
      for (int d = 0; d < D_; ++d) {
        const std::size_t from = size(k, D_) + d;
        const Real s = static_cast<Real>(view.phi[from] * view.phi[from] + view.v[from]);
        s_.get()[size(k, DP_) + d] = s;
        s_t_.get()[size(d, KP_) + k] = s;
      }
  }

  void derive_constants(const Kernels<Real>& kernels) {
    constants_ = Buffer<Real>(size(6, KP_));
    Real* at = constants_.get();
    Constants<Real>& c = globals.complete;
    for (Real** array : {&c.s, &c.phi2, &c.odds, &c.gain, &c.scale, &c.sd}) {
      *array = at;
      at += KP_;
    }
    kernels.prepare(globals);
  }

  // Whether phi y - G x may be taken over all columns and corrected for missing ones. What is left of a feature that
  // has all of its length there is rounding, and must not matter beside the prior of its weight.
  bool leaves_digits() const {
    const Real longest = *std::max_element(globals.complete.phi2, globals.complete.phi2 + K_);
    return std::numeric_limits<Real>::epsilon() * globals.g_o * longest < Real(0.01) * globals.g_w;
  }

  void derive_overlaps() {
    overlap_ = Buffer<Real>(size(3, KP_));
    globals.overlap = overlap_.get();
    // As variational.h pairs them; the row of zeros behind the last feature makes an odd number even.
    const int paired = K_ + K_ % 2;
    for (int k = 0; k < paired; ++k) {
      const int next = k + 2 < paired ? k + 2 - k % 2 : 0;
      const int others[] = {k ^ 1, next, next + 1};
      for (int j = 0; j < 3; ++j) {
        const Real* phi = phi_.get() + size(k, DP_);
        const Real* other = phi_.get() + size(others[j], DP_);
        double sum = 0;
        for (int d = 0; d < D_; ++d) sum += static_cast<double>(phi[d]) * other[d];
        overlap_.get()[3 * k + j] = static_cast<Real>(sum);
      }
    }
  }

  void derive_gram(const Kernels<Real>& kernels, [[maybe_unused]] int n_threads) {
    gram_ = Buffer<Real>(size(K_, KP_));
    globals.gram = gram_.get();
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int k = 0; k < K_; k += kGramRows) kernels.gram_rows(globals, k, gram_.get());
  }

  int K_, D_, KP_, DP_;
  Buffer<Real> phi_, phi2_, s_, tiles_, phi_t_, phi2_t_, s_t_, logit_, constants_, overlap_, gram_;
};

}  // namespace bpfa
