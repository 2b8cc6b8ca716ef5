// What the kept samples of a chain predict of all entries of a row (docs/math.md section 17).
#pragma once

#include "problem.h"
#include "vec.h"

namespace BPFA_ISA {

// Includes the predictions sum_k x_k phi_k of all kept samples of some rows in the mean over samples and in the sum of
// squared deviations from it, by Welford's update. Both are n_slots x D, and the outcome of n_before predictions.
template <class Real>
void add_predictions(const bpfa::Globals<Real>& g, int n_samples, const bpfa::Chunk<Real>& chunk, int n_slots,
                     int n_before, Real* mean, Real* squares) {
  constexpr int W = lanes<Real>;
  [[maybe_unused]] const FlushSubnormals flush;
  for (int slot = 0; slot < n_slots; ++slot, mean += g.D, squares += g.D) {
    for (int sample = 0; sample < n_samples; ++sample) {
      const std::size_t list = static_cast<std::size_t>(slot) * (n_samples + 1) + sample;
      const std::int32_t* feature = chunk.feature + chunk.start[list];
      const Real* weight = chunk.value + chunk.start[list];
      const int n = chunk.count[list], n_now = n_before + sample + 1;
      const Real share = Real(1) / n_now;
      for (int d = 0; d < g.D; d += W) {
        Vec<Real> prediction{}, odd{};
        int j = 0;
        for (; j + 2 <= n; j += 2) {
          prediction += weight[j] * load(g.phi + static_cast<std::size_t>(feature[j]) * g.DP + d);
          odd += weight[j + 1] * load(g.phi + static_cast<std::size_t>(feature[j + 1]) * g.DP + d);
        }
        if (j < n) prediction += weight[j] * load(g.phi + static_cast<std::size_t>(feature[j]) * g.DP + d);
        alignas(64) Real lane[W];
        store(lane, prediction + odd);
        const int last = g.D - d < W ? g.D - d : W;
        for (int i = 0; i < last; ++i) {
          const Real old = n_now > 1 ? mean[d + i] : Real(0), shift = lane[i] - old;
          const Real updated = old + shift * share;
          mean[d + i] = updated;
          squares[d + i] = (n_now > 1 ? squares[d + i] : Real(0)) + shift * (lane[i] - updated);
        }
      }
    }
  }
}

}  // namespace BPFA_ISA
