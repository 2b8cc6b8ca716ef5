// The covariance of the rows of one group by the features that it has: docs/math.md section 19.
#pragma once
#include "group_eigen.cuh"

// The sum of the diagonal of a matrix, for every thread.
__device__ __forceinline__ float trace_of(const float* matrix) {
  float sum = 0;
  for (int d = threadIdx.x % 32; d < D; d += 32) sum += matrix[d * LD + d];
  return lane_sum<32>(sum);
}

// The mean of the completed rows, which are left centred, and their covariance. `covariance` holds what is unknown of
// the rows in its upper tiles.
__device__ __forceinline__ void moments(const Group& group) {
  const Round& round = group.round;
  const int M = group.M;
  float *const X = group.X(), *const covariance = group.covariance(), *const mean = group.mean();
  for (int d = threadIdx.x; d < PADDED; d += THREADS) {
    float sum = 0;
#pragma unroll 4
    for (int n = 0; n < M; ++n) sum += X[n * LD + d];
    mean[d] = sum / M;
  }
  __syncthreads();
  for (int n = threadIdx.x / 32; n < M; n += WARPS)
    for (int d = threadIdx.x % 32; d < PADDED; d += 32) X[n * LD + d] -= mean[d];
  __syncthreads();
  const float scale = 1.0f / (M + (round.prior ? round.prior_rows : 0.0f));
  for (int t = threadIdx.x; t < UPPER_TILES; t += THREADS) {
    const int2 place = tile_place(t);
    Tile tile;
    clear(tile);
    add_products(tile, X, X, M, place);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int i = 4 * place.x + r;
        tile[r][c] = i < D ? (tile[r][c] + covariance[i * LD + 4 * place.y + c]) * scale : 0;
      }
    store_symmetric(covariance, tile, place);
  }
  __syncthreads();
  if (!round.prior) return;
  // The prior has the size of the group's own covariance, whose trace `scale` has changed.
  float shared = 0;
  for (int d = threadIdx.x % 32; d < D; d += 32) shared += round.prior[static_cast<int64>(d) * D + d];
  shared = lane_sum<32>(shared);
  const float factor = round.prior_rows * trace_of(covariance) / M / shared;
  __syncthreads();
  for (int i = threadIdx.x; i < D * D; i += THREADS) covariance[i / D * LD + i % D] += factor * round.prior[i];
  __syncthreads();
}

// S = features^T products + rest I, where the features are orthonormal rows and `products` = (their covariance less the
// rest) x features.
__device__ __forceinline__ void low_rank(const Group& group, float rest) {
  for (int t = threadIdx.x; t < UPPER_TILES; t += THREADS) {
    const int2 place = tile_place(t);
    Tile tile;
    clear(tile);
    add_products(tile, group.features(), group.products(), group.rank, place);
    if (place.x == place.y)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        if (4 * place.x + r < D) tile[r][r] += rest;
    store_symmetric(group.S(), tile, place);
  }
  __syncthreads();
}

// The number of features with the best odds, given the eigenvalues.
__device__ __forceinline__ int best_rank(const Group& group) {
  const double* const values = group.values();
  double *const logs = reinterpret_cast<double*>(group.products()), *const scores =
                                                                        reinterpret_cast<double*>(group.pivots());
  const double floor = group.round.floor, rows_worth = max(group.M, 2), penalty = log(rows_worth) / 2;
  for (int j = threadIdx.x; j < D; j += THREADS) logs[j] = log(values[j]);
  __syncthreads();
  for (int q = threadIdx.x; q < D; q += THREADS) {
    double total = 0, explained = 0;
    for (int j = q; j < D; ++j) total += values[j];
    for (int j = 0; j < q; ++j) explained += logs[j];
    const double n_parameters = static_cast<double>(D) * q - 0.5 * q * (q + 1);
    scores[q] = -rows_worth / 2 * (explained + (D - q) * log(fmax(total / (D - q), floor))) - n_parameters * penalty +
                group.round.log_prior[q];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int chosen = 0;
    for (int q = 1; q < D; ++q)
      if (scores[q] > scores[chosen]) chosen = q;
    *group.choice() = chosen;
  }
  __syncthreads();
  return *group.choice();
}

// Makes the rows of P orthonormal by a triangular factor of their products.
__device__ __forceinline__ void orthonormalise(const Group& group, float* P) {
  float *const gram = group.factors(), *const inverse = group.inverses(0);
  const int q = group.rank;
  for (int i = threadIdx.x; i < q * q; i += THREADS) {
    const int row = i / q, column = i % q;
    if (column <= row) gram[packed(row) + column] = dot(P + row * LD, P + column * LD);
  }
  __syncthreads();
  // The rows have length 1, or nearly.
  if (threadIdx.x < 32) warp_cholesky(gram, q, q, inverse, 1e-7f, threadIdx.x);
  __syncthreads();
  for (int d = threadIdx.x; d < PADDED; d += THREADS)
    for (int i = 0; i < q; ++i) {
      float sum = P[i * LD + d];
      for (int j = 0; j < i; ++j) sum -= gram[packed(i) + j] * P[j * LD + d];
      P[i * LD + d] = sum * inverse[i];
    }
  __syncthreads();
}

// The features follow from those of the iteration before by one step of orthogonal iteration.
__device__ __forceinline__ void next_features(Group& group) {
  const int q = group.rank, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float *const features = group.features(), *const products = group.products(), *const own = group.S();
  const float* const covariance = group.covariance();
  float rest = trace_of(covariance);
  multiply(products, features, covariance, q, D);
  __syncthreads();
  for (int k = warp; k < q; k += WARPS) {
    float square = 0;
    for (int d = lane; d < D; d += 32) square += products[k * LD + d] * products[k * LD + d];
    square = lane_sum<32>(square);
    const float scale = square > 0 ? rsqrtf(square) : 0;
    for (int d = lane; d < PADDED; d += 32) features[k * LD + d] = products[k * LD + d] * scale;
  }
  __syncthreads();
  if (q > 0) {
    orthonormalise(group, features);
    // Once more, because the rows were not quite orthogonal in single precision.
    orthonormalise(group, features);
  }
  multiply(products, features, covariance, q, D);
  __syncthreads();
  for (int i = threadIdx.x; i < q * q; i += THREADS)
    own[i / q * LD + i % q] = dot(products + i / q * LD, features + i % q * LD);
  __syncthreads();
  for (int k = 0; k < q; ++k) rest -= own[k * LD + k];
  rest = fmaxf(rest, 0.0f) / (D - q);
  __syncthreads();
  for (int k = threadIdx.x; k < q; k += THREADS) own[k * LD + k] -= rest;
  __syncthreads();
  multiply(products, own, features, q, q);
  __syncthreads();
  low_rank(group, rest + group.round.floor);
}

// The leading eigenvectors of the covariance, as many as have the best odds.
__device__ __forceinline__ void leading_features(Group& group) {
  float *const A = group.S(), *const diagonal = group.inverses(0), *const beside = group.vector(0);
  float* const scales = group.vector(1);
  float2* const pairs = reinterpret_cast<float2*>(group.vector(2));
  const float trace = trace_of(group.covariance()), floor = group.round.floor;
  for (int i = threadIdx.x; i < D * TILES; i += THREADS) {
    const int at = i / TILES * LD + 4 * (i % TILES);
    store4(A + at, load4(group.covariance() + at));
  }
  __syncthreads();
  tridiagonalise(A, trace, diagonal, beside, scales, group.pivots());
  bisect(diagonal, beside, pairs, trace, group.values(), floor);
  group.rank = best_rank(group);
  leading_vectors(A, pairs, beside, scales, group.values(), floor, trace, group.rank, group.products(),
                  group.features());
}

// The covariance S of the rows; the number of features is decided in the first iteration.
__device__ __forceinline__ void model(Group& group, int iteration) {
  if (!group.round.log_prior) {
    for (int i = threadIdx.x; i < D * PADDED; i += THREADS) {
      const int row = i / PADDED, column = i % PADDED;
      group.S()[row * LD + column] = group.covariance()[row * LD + column] + (row == column ? group.round.floor : 0.0f);
    }
    __syncthreads();
    return;
  }
  if (iteration == 0) leading_features(group);
  // A step of orthogonal iteration leaves eigenvectors as they are, and makes up for those that inverse iteration
  // cannot tell apart.
  next_features(group);
}
