// Sums over the rows of a batch from the features that are on (MATH.md section 4), in a fixed order: a block adds
// the rows of its chunk one after another, each warp those features that are its own; then chunks are added up.
#include "common.cuh"

__device__ inline bool is_observed(const unsigned short* masks, int64 row, int D, int d) {
  return masks == nullptr || (masks[row * ((D + 15) / 16) + d / 16] >> (d % 16) & 1);
}

// Partial sums of features [F blockIdx.y, ...) over the rows of chunk blockIdx.x: data is the residual of every
// sample, or the rows themselves.
extern "C" __global__ void __launch_bounds__(256) sparse_sums(
    const int* counts, const Entry* entries, const real* data, int64 sample_stride, const unsigned short* masks,
    int64 n_rows, int n_samples, int K, int D, int chunk_rows, int F, real* partial_xd, real* partial_zw2,
    real* partial_n, real* partial_total) {
  extern __shared__ double shared[];
  const int k0 = F * blockIdx.y, n_features = min(F, K - k0);
  real* xd = reinterpret_cast<real*>(shared);
  real* zw2 = xd + F * D;
  real* n = masks ? zw2 + F * D : zw2;
  real* total = n + F;
  for (int i = threadIdx.x; i < total + F - xd; i += blockDim.x) xd[i] = 0;
  __syncthreads();
  const int warp = threadIdx.x / 32, n_warps = blockDim.x / 32, lane = threadIdx.x % 32;
  const int64 first = static_cast<int64>(blockIdx.x) * chunk_rows;
  const int n_here = static_cast<int>(min(static_cast<int64>(chunk_rows), n_rows - first));
  for (int sample = 0; sample < n_samples; ++sample) {
    for (int i0 = 0; i0 < n_here; i0 += 32) {
      const int64 at0 = sample * n_rows + first + i0;
      const int my_count = i0 + lane < n_here ? counts[at0 + lane] : 0;
      for (int i = 0; i < min(32, n_here - i0); ++i) {
        const int count = __shfl_sync(EVERY_LANE, my_count, i);
        const int64 row = first + i0 + i;
        for (int e0 = 0; e0 < count; e0 += 32) {
          const int e = e0 + lane;
          const Entry entry = e < count ? entries[(at0 + i) * K + e] : Entry{-1, 0};
          const int f = entry.feature - k0;
          unsigned own = __ballot_sync(EVERY_LANE, f >= 0 && f < n_features && f % n_warps == warp);
          for (; own; own &= own - 1) {
            const int from = __ffs(own) - 1;
            const int feature = __shfl_sync(EVERY_LANE, f, from);
            const real weight = __shfl_sync(EVERY_LANE, entry.weight, from);
            for (int d = lane; d < D; d += 32) {
              if (!is_observed(masks, row, D, d)) continue;
              xd[feature * D + d] += weight * data[sample * sample_stride + row * D + d];
              if (masks) zw2[feature * D + d] += weight * weight;
            }
            if (lane == 0) {
              n[feature] += 1;
              total[feature] += weight * weight;
            }
          }
        }
      }
    }
  }
  __syncthreads();
  const int64 to = (static_cast<int64>(blockIdx.x) * K + k0) * D;
  for (int i = threadIdx.x; i < n_features * D; i += blockDim.x) {
    partial_xd[to + i] = xd[i];
    if (masks) partial_zw2[to + i] = zw2[i];
  }
  for (int i = threadIdx.x; i < n_features; i += blockDim.x) {
    partial_n[static_cast<int64>(blockIdx.x) * K + k0 + i] = n[i];
    partial_total[static_cast<int64>(blockIdx.x) * K + k0 + i] = total[i];
  }
}

__device__ inline double over_chunks(const real* partial, int64 stride, int n_chunks) {
  double sum = 0;
#pragma unroll 8
  for (int chunk = 0; chunk < n_chunks; ++chunk) sum += partial[chunk * stride];
  return sum;
}

__device__ inline void add(double* to, double value, int* bad) {
  *to += value;
  if (!isfinite(*to)) *bad = 1;
}

// Adds the chunks to the sums so far; `bad` is set where a sum is not finite. The last block takes what does not
// concern columns.
extern "C" __global__ void __launch_bounds__(256) reduce_sums(
    const real* partial_xd, const real* partial_zw2, const real* partial_n, const real* partial_total,
    const double* squares, const int* n_observed, int n_chunks, int64 n_rows, int K, int D, double* xd, double* zw2,
    double* n, double* total, double* scalars, int* bad) {
  if (blockIdx.x + 1 < gridDim.x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= K * D) return;
    add(xd + i, over_chunks(partial_xd + i, static_cast<int64>(K) * D, n_chunks), bad);
    if (zw2) add(zw2 + i, over_chunks(partial_zw2 + i, static_cast<int64>(K) * D, n_chunks), bad);
    return;
  }
  for (int k = threadIdx.x; k < K; k += blockDim.x) {
    add(n + k, over_chunks(partial_n + k, K, n_chunks), bad);
    add(total + k, over_chunks(partial_total + k, K, n_chunks), bad);
  }
  __shared__ double rows[2][256];
  double own_squares = 0, own_observed = 0;
  for (int64 row = threadIdx.x; row < n_rows; row += blockDim.x) {
    own_squares += squares[row];
    own_observed += n_observed ? n_observed[row] : D;
  }
  rows[0][threadIdx.x] = own_squares;
  rows[1][threadIdx.x] = own_observed;
  for (int width = 128; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width)
      for (int i = 0; i < 2; ++i) rows[i][threadIdx.x] += rows[i][threadIdx.x + width];
  }
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; ++i) add(scalars + i, rows[i][0], bad);
}

// sum_i o_id x_i x_i^T of column blockIdx.x, in double; each warp adds those rows of the matrix that are its own.
extern "C" __global__ void __launch_bounds__(1024) sparse_joint(const int* counts, const Entry* entries,
                                                                const unsigned short* masks, int64 n_rows,
                                                                int n_samples, int K, int D, double* xx) {
  const int d = blockIdx.x, warp = threadIdx.x / 32, n_warps = blockDim.x / 32, lane = threadIdx.x % 32;
  xx += static_cast<int64>(d) * K * K;
  for (int sample = 0; sample < n_samples; ++sample) {
    for (int64 row0 = 0; row0 < n_rows; row0 += 32) {
      const bool mine = row0 + lane < n_rows && is_observed(masks, row0 + lane, D, d);
      const int64 at0 = sample * n_rows + row0;
      const int my_count = mine ? counts[at0 + lane] : 0;
      for (unsigned rows = __ballot_sync(EVERY_LANE, my_count > 0); rows; rows &= rows - 1) {
        const int i = __ffs(rows) - 1, count = __shfl_sync(EVERY_LANE, my_count, i);
        const Entry* list = entries + (at0 + i) * K;
        for (int a0 = 0; a0 < count; a0 += 32) {
          const Entry a = a0 + lane < count ? list[a0 + lane] : Entry{-1, 0};
          unsigned own = __ballot_sync(EVERY_LANE, a.feature >= 0 && a.feature % n_warps == warp);
          for (; own; own &= own - 1) {
            const int from = __ffs(own) - 1;
            const int64 feature = __shfl_sync(EVERY_LANE, a.feature, from);
            const double weight = __shfl_sync(EVERY_LANE, a.weight, from);
            for (int e = lane; e < count; e += 32) xx[feature * K + list[e].feature] += weight * list[e].weight;
          }
        }
        // The next row may add to the same places by other lanes.
        __syncwarp();
      }
    }
  }
}
