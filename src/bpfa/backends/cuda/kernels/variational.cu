// Coordinate ascent: spike-and-slab and mean field (docs/math.md section 4). Every feature of every row moves at every
// visit, so a warp has a row, its residual in registers, a column (or several) a lane.
//
// Variants, by macro: MEAN_FIELD or spike-and-slab, COLUMNS (of a lane), REAL.
#include "common.cuh"

#ifndef MEAN_FIELD
#define MEAN_FIELD 0
#endif
#ifndef COLUMNS
#define COLUMNS 2
#endif

__device__ inline real sigmoid(real x) { return 1 / (1 + power_of_2(static_cast<real>(-LOG2_E) * x)); }

extern "C" __global__ void __launch_bounds__(256)
    variational(const real* dense, const real* shown, int64 n_rows, int K, int D, const real* phi_rows,
                const real* phi2_seen, const real* s_seen, int64 seen_stride, const real* logit2,
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
      o[i] = d < D && (shown == nullptr || shown[row * D + d] != 0) ? 1 : 0;
    }
    // The start, x = theta m, is taken out of the residual first.
    for (int sweep = -1; sweep < n_sweeps; ++sweep) {
      for (int k0 = 0; k0 < K; k0 += 32) {
        const int own = k0 + lane;
        const int64 at = row * K + own;
        const bool there = own < K;
        real theta_k = there ? theta[at] : 0, m_k = there ? m[at] : 0, kappa_k = g_w;
        const real s = there ? s_seen[row * seen_stride + own] : 0;
        const real phi2 = there ? phi2_seen[row * seen_stride + own] : 0;
        const real logit = there ? logit2[own] * static_cast<real>(1 / LOG2_E) : 0;
        if (sweep < 0 && __ballot_sync(EVERY_LANE, theta_k * m_k != 0) == 0) continue;
        for (int i = 0; i < min(32, K - k0); ++i) {
          const real* feature = phi_rows + static_cast<int64>(k0 + i) * D + lane;
          real product = 0;
#pragma unroll
          for (int j = 0; j < COLUMNS; ++j) {
            phi[j] = lane + 32 * j < D ? feature[32 * j] : 0;
            product += phi[j] * residual[j];
          }
          // Every lane judges its own feature; that of lane i counts.
          real x = theta_k * m_k, grown = x;
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
            grown = probability * mean - x;
            if (lane == i) {
              theta_k = probability;
              m_k = mean;
              kappa_k = precision;
            }
          }
          const real change = __shfl_sync(EVERY_LANE, grown, i);
#pragma unroll
          for (int j = 0; j < COLUMNS; ++j) residual[j] -= change * phi[j] * o[j];
        }
        if (sweep >= 0 && there) {
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
