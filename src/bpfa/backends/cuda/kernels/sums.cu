// Sums over the rows of a batch from the features that are on (docs/math.md section 4), in a fixed order: a block adds
// the rows of its chunk one after another, each warp in the columns that are its own; then chunks are added up.
//
// Variants, by macro: REAL; ROWS that a block looks at together, 32 or, where shared memory is small, 16.
#include "common.cuh"

#ifndef ROWS
#define ROWS 32
#endif

__device__ inline bool is_observed(const unsigned short* masks, int64 row, int D, int d) {
  return masks == nullptr || (masks[row * ((D + 15) / 16) + d / 16] >> (d % 16) & 1);
}

// A sample of a row on its way to shared memory.
struct Staged {
  int count;
  Entry entry;  // the one of this lane, of the first 32
  real value[2];
  bool seen[2];
};

// Partial sums over the rows of chunk blockIdx.x, for the features of part blockIdx.y and the columns of part
// blockIdx.z. Rows are put into shared memory ROWS at a time; then each warp adds what its own features have in them,
// in registers, two columns a lane. Features are dealt out to the warps one by one, as some are in every row. `data` is
// the residual of every sample, or the rows themselves.
constexpr int kRows = ROWS, kWarps = 16, kOwn = 16, kFeatures = kWarps * kOwn, kColumns = 64;

extern "C" __global__ void __launch_bounds__(32 * kWarps)
    sparse_sums(const int* counts, const Entry* entries, const real* data, int64 sample_stride,
                const unsigned short* masks, const double* squares, const int* n_observed, int64 n_rows, int n_samples,
                int K, int D, int chunk_rows, real* partial_xd, real* partial_zw2, real* partial_n, real* partial_total,
                double* partial_rows) {
  extern __shared__ double shared[];
  real* weights = reinterpret_cast<real*>(shared);                   // kRows x kFeatures
  real* values = weights + kRows * kFeatures;                        // kRows x kColumns
  real* n = values + kRows * kColumns;                               // kFeatures
  real* total = n + kFeatures;                                       // kFeatures
  unsigned* users = reinterpret_cast<unsigned*>(total + kFeatures);  // of each feature: the rows, a bit each
  unsigned* seen = users + kFeatures;                                // of each row: the columns, a bit each
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int k0 = kFeatures * blockIdx.y, d0 = kColumns * blockIdx.z;
  const int64 first = static_cast<int64>(blockIdx.x) * chunk_rows;
  const int n_here = static_cast<int>(min(static_cast<int64>(chunk_rows), n_rows - first));
  for (int i = threadIdx.x; i < 2 * kFeatures; i += blockDim.x) n[i] = 0;
  // The rows of the next group are on their way while those of one are added.
  Staged next[kRows / kWarps];
  const int n_groups = (n_here + kRows - 1) / kRows;
  const auto fetch = [&](int group) {
#pragma unroll
    for (int r = 0; r < kRows / kWarps; ++r) {
      const int i = group % n_groups * kRows + warp + r * kWarps;
      const int64 row = first + min(i, n_here - 1), at = group / n_groups * n_rows + row;
      next[r].count = i < n_here ? counts[at] : 0;
      next[r].entry = lane < K ? entries[at * K + lane] : Entry{0, 0};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int d = d0 + lane + 32 * j;
        next[r].seen[j] = i < n_here && d < D && is_observed(masks, row, D, d);
        next[r].value[j] = d < D ? data[group / n_groups * sample_stride + row * D + d] : 0;
      }
    }
  };
  real xd[kOwn][2] = {}, zw2[kOwn][2] = {};
  fetch(0);
  for (int group = 0; group < n_groups * n_samples; ++group) {
    __syncthreads();
    for (int i = threadIdx.x; i < kFeatures; i += blockDim.x) users[i] = 0;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows / kWarps; ++r) {
      const int i = warp + r * kWarps;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        values[i * kColumns + lane + 32 * j] = next[r].seen[j] ? next[r].value[j] : 0;
        const unsigned bits = __ballot_sync(EVERY_LANE, next[r].seen[j]);
        if (lane == 0) seen[2 * i + j] = bits;
      }
      for (int e = lane; e < next[r].count; e += 32) {
        const int64 row = first + group % n_groups * kRows + i;
        const Entry entry = e == lane ? next[r].entry : entries[(group / n_groups * n_rows + row) * K + e];
        const int f = entry.feature - k0;
        if (f < 0 || f >= kFeatures) continue;
        weights[i * kFeatures + f] = entry.weight;
        atomicOr(users + f, 1u << i);
      }
    }
    if (group + 1 < n_groups * n_samples) fetch(group + 1);
    __syncthreads();
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      const int f = kWarps * own + warp;
      const unsigned all = users[f];
      real squared = 0;
      // Two rows at a time, so that one need not wait for the other; the second may be none.
      for (unsigned rows = all; rows; rows &= rows - 1) {
        const int i = __ffs(rows) - 1;
        rows &= rows - 1;
        const int other = rows ? __ffs(rows) - 1 : i;
        const real weight = weights[i * kFeatures + f], weight2 = weight * weight;
        const real second = rows ? weights[other * kFeatures + f] : real(0), second2 = second * second;
        squared += weight2 + second2;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int column = lane + 32 * j;
          xd[own][j] += weight * values[i * kColumns + column] + second * values[other * kColumns + column];
          if (masks) {
            if (seen[2 * i + j] >> lane & 1) zw2[own][j] += weight2;
            if (seen[2 * other + j] >> lane & 1) zw2[own][j] += second2;
          }
        }
      }
      if (lane == 0) {
        n[f] += __popc(all);
        total[f] += squared;
      }
    }
  }
  __syncthreads();
  const int64 chunk = static_cast<int64>(blockIdx.x) * K;
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const int k = k0 + kWarps * own + warp;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int d = d0 + lane + 32 * j;
      if (k >= K || d >= D) continue;
      partial_xd[(chunk + k) * D + d] = xd[own][j];
      if (masks) partial_zw2[(chunk + k) * D + d] = zw2[own][j];
    }
    if (lane == 0 && k < K && blockIdx.z == 0) {
      partial_n[chunk + k] = n[k - k0];
      partial_total[chunk + k] = total[k - k0];
    }
  }
  if (blockIdx.y || blockIdx.z || warp) return;
  double own_squares = 0, own_observed = 0;
  for (int i = lane; i < n_here; i += 32) {
    own_squares += squares[first + i];
    own_observed += n_observed ? n_observed[first + i] : D;
  }
  own_squares = lane_sum<32>(own_squares);
  own_observed = lane_sum<32>(own_observed);
  if (lane == 0) {
    partial_rows[blockIdx.x] = own_squares;
    partial_rows[gridDim.x + blockIdx.x] = own_observed;
  }
}

// Chunks are added up by four threads, each a quarter of them, so that none waits for so many.
constexpr int kQuarters = 4, kReduced = 64;

template <class Number>
__device__ inline double over_chunks(const Number* partial, int64 stride, int n_chunks, double* shared) {
  const int quarter = threadIdx.x / kReduced, size = (n_chunks + kQuarters - 1) / kQuarters;
  double sum = 0;
#pragma unroll 8
  for (int chunk = quarter * size; chunk < min(n_chunks, (quarter + 1) * size); ++chunk) sum += partial[chunk * stride];
  __syncthreads();
  shared[threadIdx.x] = sum;
  __syncthreads();
  const double* own = shared + threadIdx.x % kReduced;
  return (own[0] + own[kReduced]) + (own[2 * kReduced] + own[3 * kReduced]);
}

__device__ inline void add(double* to, double value, int* bad) {
  if (threadIdx.x >= kReduced) return;
  *to += value;
  if (!isfinite(*to)) *bad = 1;
}

// Adds the chunks to the sums so far; `bad` is set where a sum is not finite. Blocks of 64 sums each: those of features
// and columns, then those of features, then the last block, which takes what concerns neither.
extern "C" __global__ void __launch_bounds__(kQuarters* kReduced)
    reduce_sums(const real* partial_xd, const real* partial_zw2, const real* partial_n, const real* partial_total,
                const double* partial_rows, int n_chunks, int K, int D, double* xd, double* zw2, double* n,
                double* total, double* scalars, int* bad) {
  __shared__ double shared[kQuarters * kReduced];
  const int n_blocks = (K * D + kReduced - 1) / kReduced, block = blockIdx.x;
  const int within = threadIdx.x % kReduced;
  if (block < n_blocks) {
    // Threads beyond the last sum repeat it, and keep it to themselves.
    const int i = kReduced * block + within, at = min(i, K * D - 1);
    const double sum = over_chunks(partial_xd + at, static_cast<int64>(K) * D, n_chunks, shared);
    if (i < K * D) add(xd + at, sum, bad);
    if (!zw2) return;
    const double squares = over_chunks(partial_zw2 + at, static_cast<int64>(K) * D, n_chunks, shared);
    if (i < K * D) add(zw2 + at, squares, bad);
    return;
  }
  if (block + 1 < gridDim.x) {
    const int k = kReduced * (block - n_blocks) + within, at = min(k, K - 1);
    const double users = over_chunks(partial_n + at, K, n_chunks, shared);
    if (k < K) add(n + at, users, bad);
    const double sum = over_chunks(partial_total + at, K, n_chunks, shared);
    if (k < K) add(total + at, sum, bad);
    return;
  }
  const double sum = over_chunks(partial_rows + min(within, 1) * n_chunks, 1, n_chunks, shared);
  if (within < 2) add(scalars + within, sum, bad);
}

// sum_i o_id x_i x_i^T of column blockIdx.x, in double; each warp adds those rows of the matrix that are its own.
extern "C" __global__ void __launch_bounds__(1024)
    sparse_joint(const int* counts, const Entry* entries, const unsigned short* masks, int64 n_rows, int n_samples,
                 int K, int D, double* xx) {
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

// Partial sums of o_id x_i x_i^T over chunk blockIdx.z of all kept samples, for matrix blockIdx.y, which is that of a
// column, or of all where nothing is missing: sixty-four times sixty-four features, sixteen products a thread. For
// features of which rows use a good part.
constexpr int kTile = 64, kLists = 32, kOfThread = 4, kTogether = 8 * kLists;

extern "C" __global__ void __launch_bounds__((kTile / kOfThread) * (kTile / kOfThread))
    dense_joint(const int* counts, const Entry* entries, const unsigned short* masks, int64 n_rows, int n_samples,
                int K, int D, int64 chunk_lists, double* partial) {
  __shared__ real x[2][kLists][kTile];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
  const int n_tiles = (K + kTile - 1) / kTile, d = blockIdx.y;
  const int k0[2] = {kTile * (static_cast<int>(blockIdx.x) / n_tiles),
                     kTile * (static_cast<int>(blockIdx.x) % n_tiles)};
  const int at[2] = {kOfThread * (static_cast<int>(threadIdx.x) / (kTile / kOfThread)),
                     kOfThread * (static_cast<int>(threadIdx.x) % (kTile / kOfThread))};
  const int64 first = blockIdx.z * chunk_lists, last = min(first + chunk_lists, n_samples * n_rows);
  real sum[kOfThread][kOfThread] = {};
  double total[kOfThread][kOfThread] = {};
  for (int64 list0 = first; list0 < last; list0 += kLists) {
    __syncthreads();
    for (int i = threadIdx.x; i < kLists * kTile; i += blockDim.x)
      x[0][i / kTile][i % kTile] = x[1][i / kTile][i % kTile] = 0;
    __syncthreads();
    for (int i = warp; i < kLists && list0 + i < last; i += n_warps) {
      const int64 list = list0 + i;
      if (!is_observed(masks, list % n_rows, D, d)) continue;
      for (int e = lane; e < counts[list]; e += 32) {
        const Entry entry = entries[list * K + e];
        for (int side = 0; side < 2; ++side) {
          const int f = entry.feature - k0[side];
          if (f >= 0 && f < kTile) x[side][i][f] = entry.weight;
        }
      }
    }
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < kLists; ++i)
#pragma unroll
      for (int a = 0; a < kOfThread; ++a)
#pragma unroll
        for (int b = 0; b < kOfThread; ++b) sum[a][b] += x[0][i][at[0] + a] * x[1][i][at[1] + b];
    // Single precision is for some rows only.
    if ((list0 - first) % kTogether == kTogether - kLists || list0 + kLists >= last) {
#pragma unroll
      for (int a = 0; a < kOfThread; ++a) {
#pragma unroll
        for (int b = 0; b < kOfThread; ++b) {
          total[a][b] += sum[a][b];
          sum[a][b] = 0;
        }
      }
    }
  }
  partial += (static_cast<int64>(blockIdx.z) * gridDim.y + d) * K * K;
#pragma unroll
  for (int a = 0; a < kOfThread; ++a) {
#pragma unroll
    for (int b = 0; b < kOfThread; ++b) {
      const int k = k0[0] + at[0] + a, l = k0[1] + at[1] + b;
      if (k < K && l < K) partial[static_cast<int64>(k) * K + l] = total[a][b];
    }
  }
}

// Adds the chunks to the sums so far.
extern "C" __global__ void reduce_joint(const double* partial, int n_chunks, int64 size, double* xx) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= size) return;
  double sum = 0;
  for (int chunk = 0; chunk < n_chunks; ++chunk) sum += partial[chunk * size + i];
  xx[i] += sum;
}
