// Coordinate ascent for the variational methods, spike-and-slab and mean field (docs/math.md section 4). Every feature
// of every row changes at every visit, so a warp works on one row and has its residual in registers, with one or more
// columns in each lane.
//
// Variants, selected by macro: MEAN_FIELD, 1 for mean field and 0 for spike-and-slab; COLUMNS, the number of columns in
// a lane; REAL.
#include "common.cuh"

#ifndef MEAN_FIELD
#define MEAN_FIELD 0
#endif
#ifndef COLUMNS
#define COLUMNS 2
#endif

__device__ inline real sigmoid(real x) { return 1 / (1 + power_of_2(static_cast<real>(-LOG2_E) * x)); }

// `indicators` is 1 at observed entries and 0 at missing ones, or null if nothing is missing. phi2_observed and
// s_observed are the sums of phi^2 and of phi^2 + v over the observed columns of each row; if nothing is missing,
// observed_stride is 0 and all rows share them. theta and m hold the start, and are replaced by the result.
extern "C" __global__ void __launch_bounds__(256)
    variational(const real* dense, const real* indicators, int64 n_rows, int K, int D, const real* phi_rows,
                const real* phi2_observed, const real* s_observed, int64 observed_stride, const real* logit2,
                const double* precisions, int n_sweeps, real* theta, real* m, real* kappa, real* residuals) {
  const int lane = threadIdx.x % 32;
  const real g_o = static_cast<real>(precisions[0]), g_w = static_cast<real>(precisions[1]);
  const int64 n_warps = static_cast<int64>(gridDim.x) * blockDim.x / 32;
  for (int64 row = (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x) / 32; row < n_rows; row += n_warps) {
    real residual[COLUMNS], o[COLUMNS], phi[COLUMNS];
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
      const int d = lane + 32 * i;
      residual[i] = d < D ? dense[row * D + d] : 0;
      o[i] = d < D && (indicators == nullptr || indicators[row * D + d] != 0) ? 1 : 0;
    }
    // In the first pass, numbered -1, the contribution of the starting values x = theta m is subtracted from the
    // residual.
    for (int sweep = -1; sweep < n_sweeps; ++sweep) {
      for (int k0 = 0; k0 < K; k0 += 32) {
        const int own = k0 + lane;
        const int64 at = row * K + own;
        const bool exists = own < K;
        real theta_k = exists ? theta[at] : 0, m_k = exists ? m[at] : 0, kappa_k = g_w;
        const real s = exists ? s_observed[row * observed_stride + own] : 0;
        const real phi2 = exists ? phi2_observed[row * observed_stride + own] : 0;
        const real logit = exists ? logit2[own] * static_cast<real>(1 / LOG2_E) : 0;
        if (sweep < 0 && __ballot_sync(EVERY_LANE, theta_k * m_k != 0) == 0) continue;
        for (int i = 0; i < min(32, K - k0); ++i) {
          const real* feature = phi_rows + static_cast<int64>(k0 + i) * D + lane;
          real product = 0;
#pragma unroll
          for (int j = 0; j < COLUMNS; ++j) {
            phi[j] = lane + 32 * j < D ? feature[32 * j] : 0;
            product += phi[j] * residual[j];
          }
          // Every lane evaluates its own feature, but only the result of lane i, whose feature is current, is used.
          real x = theta_k * m_k, change_of_x = x;
          if (sweep >= 0) {
            const real c = lane_sum<32>(product) + x * phi2;
            const real precision = g_w + g_o * (MEAN_FIELD ? theta_k * s : s), variance = 1 / precision;
#if MEAN_FIELD
            const real mean = g_o * theta_k * c * variance;
            const real log_odds = logit + g_o * (mean * c - real(0.5) * (mean * mean + variance) * s);
#else
            const real mean = g_o * c * variance;
            const real odds = logit - real(0.5 / LOG2_E) * log_2(precision / g_w);
            const real log_odds = odds + real(0.5) * g_o * c * mean;
#endif
            const real probability = sigmoid(log_odds);
            change_of_x = probability * mean - x;
            if (lane == i) {
              theta_k = probability;
              m_k = mean;
              kappa_k = precision;
            }
          }
          const real change = __shfl_sync(EVERY_LANE, change_of_x, i);
#pragma unroll
          for (int j = 0; j < COLUMNS; ++j) residual[j] -= change * phi[j] * o[j];
        }
        if (sweep >= 0 && exists) {
          theta[at] = theta_k;
          m[at] = m_k;
          if (sweep + 1 == n_sweeps) kappa[at] = kappa_k;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i)
      if (lane + 32 * i < D) residuals[row * D + lane + 32 * i] = residual[i];
  }
}
