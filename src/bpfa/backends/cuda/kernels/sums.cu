// Sums over the rows of a batch, computed from the lists of the features that are on (docs/math.md section 4). The
// order of the additions is fixed: a block adds the rows of its chunk one after another, and then the chunks are added
// up.
//
// Variants, selected by macro: REAL; ROWS, the number of rows that a block holds in shared memory at a time, 32, or 16
// if there is little shared memory.
#include "common.cuh"

#ifndef ROWS
#define ROWS 32
#endif

// Whether column d of a row is observed. Masks have sixteen columns to a word, and are null if nothing is missing.
__device__ inline bool is_observed(const unsigned short* masks, int64 row, int D, int d) {
  return masks == nullptr || (masks[row * ((D + 15) / 16) + d / 16] >> (d % 16) & 1);
}

// A sample of a row, in registers on its way to shared memory.
struct Staged {
  int count;
  Entry entry;  // the one of this lane, among the first 32
  real value[2];
  bool observed[2];
};

// Computes partial sums over the rows of chunk blockIdx.x, for the features of part blockIdx.y and the columns of part
// blockIdx.z. ROWS rows at a time are put into shared memory. Then each warp adds up the rows in which its own features
// are on, in registers, with two columns for each lane. Features are dealt to the warps one by one, because those that
// are on in most rows may have adjacent numbers. `data` is the residual of every sample, or the rows themselves (then
// sample_stride is 0).
constexpr int kRows = ROWS, kWarps = 16, kWarpFeatures = 16, kFeatures = kWarps * kWarpFeatures, kColumns = 64;

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
  unsigned* users = reinterpret_cast<unsigned*>(total + kFeatures);  // kFeatures: bits of the rows that use it
  unsigned* observed_bits = users + kFeatures;  // 2 x kRows: the observed columns of a row, one bit each
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int k0 = kFeatures * blockIdx.y, d0 = kColumns * blockIdx.z;
  const int64 first = static_cast<int64>(blockIdx.x) * chunk_rows;
  const int n_here = static_cast<int>(min(static_cast<int64>(chunk_rows), n_rows - first));
  for (int i = threadIdx.x; i < 2 * kFeatures; i += blockDim.x) n[i] = 0;
  // The rows of the next group are loaded into registers while those of the current group are added.
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
        next[r].observed[j] = i < n_here && d < D && is_observed(masks, row, D, d);
        next[r].value[j] = d < D ? data[group / n_groups * sample_stride + row * D + d] : 0;
      }
    }
  };
  real xd[kWarpFeatures][2] = {}, zw2[kWarpFeatures][2] = {};
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
        values[i * kColumns + lane + 32 * j] = next[r].observed[j] ? next[r].value[j] : 0;
        const unsigned bits = __ballot_sync(EVERY_LANE, next[r].observed[j]);
        if (lane == 0) observed_bits[2 * i + j] = bits;
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
    for (int own = 0; own < kWarpFeatures; ++own) {
      const int f = kWarps * own + warp;
      const unsigned using_rows = users[f];
      real squared = 0;
      // Two rows are added at a time, so that one need not wait for the other. If there is no second row, its weight is
      // zero.
      for (unsigned rows = using_rows; rows; rows &= rows - 1) {
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
            if (observed_bits[2 * i + j] >> lane & 1) zw2[own][j] += weight2;
            if (observed_bits[2 * other + j] >> lane & 1) zw2[own][j] += second2;
          }
        }
      }
      if (lane == 0) {
        n[f] += __popc(using_rows);
        total[f] += squared;
      }
    }
  }
  __syncthreads();
  const int64 chunk = static_cast<int64>(blockIdx.x) * K;
#pragma unroll
  for (int own = 0; own < kWarpFeatures; ++own) {
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
  // Sums over the rows alone are computed once for each chunk.
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

// Each sum over the chunks is shared by four threads, each of which adds a quarter of the chunks, so that fewer
// additions have to wait for each other.
constexpr int kQuarters = 4, kBlockSums = 64;

template <class Number>
__device__ inline double over_chunks(const Number* partial, int64 stride, int n_chunks, double* shared) {
  const int quarter = threadIdx.x / kBlockSums, size = (n_chunks + kQuarters - 1) / kQuarters;
  double sum = 0;
#pragma unroll 8
  for (int chunk = quarter * size; chunk < min(n_chunks, (quarter + 1) * size); ++chunk) sum += partial[chunk * stride];
  __syncthreads();
  shared[threadIdx.x] = sum;
  __syncthreads();
  const double* own = shared + threadIdx.x % kBlockSums;
  return (own[0] + own[kBlockSums]) + (own[2 * kBlockSums] + own[3 * kBlockSums]);
}

// Adds to a sum, if this is the first of the four threads that share it.
__device__ inline void add(double* to, double value, int* bad) {
  if (threadIdx.x >= kBlockSums) return;
  *to += value;
  if (!isfinite(*to)) *bad = 1;
}

// Adds the chunks to the sums so far; sets `bad` if a sum is not finite. A block computes 64 sums. The first blocks
// compute those for features and columns, the next ones those for features, and the last block those for neither.
extern "C" __global__ void __launch_bounds__(kQuarters* kBlockSums)
    reduce_sums(const real* partial_xd, const real* partial_zw2, const real* partial_n, const real* partial_total,
                const double* partial_rows, int n_chunks, int K, int D, double* xd, double* zw2, double* n,
                double* total, double* scalars, int* bad) {
  __shared__ double shared[kQuarters * kBlockSums];
  const int n_blocks = (K * D + kBlockSums - 1) / kBlockSums, block = blockIdx.x;
  const int within = threadIdx.x % kBlockSums;
  if (block < n_blocks) {
    // Threads beyond the last sum compute it again and discard the result.
    const int i = kBlockSums * block + within, at = min(i, K * D - 1);
    const double sum = over_chunks(partial_xd + at, static_cast<int64>(K) * D, n_chunks, shared);
    if (i < K * D) add(xd + at, sum, bad);
    if (!zw2) return;
    const double squares = over_chunks(partial_zw2 + at, static_cast<int64>(K) * D, n_chunks, shared);
    if (i < K * D) add(zw2 + at, squares, bad);
    return;
  }
  if (block + 1 < gridDim.x) {
    const int k = kBlockSums * (block - n_blocks) + within, at = min(k, K - 1);
    const double users = over_chunks(partial_n + at, K, n_chunks, shared);
    if (k < K) add(n + at, users, bad);
    const double sum = over_chunks(partial_total + at, K, n_chunks, shared);
    if (k < K) add(total + at, sum, bad);
    return;
  }
  const double sum = over_chunks(partial_rows + min(within, 1) * n_chunks, 1, n_chunks, shared);
  if (within < 2) add(scalars + within, sum, bad);
}

// Computes sum_i o_id x_i x_i^T for column blockIdx.x, in double precision; each warp adds to some rows of the matrix
// only.
extern "C" __global__ void __launch_bounds__(1024)
    sparse_joint(const int* counts, const Entry* entries, const unsigned short* masks, int64 n_rows, int n_samples,
                 int K, int D, double* xx) {
  const int d = blockIdx.x, warp = threadIdx.x / 32, n_warps = blockDim.x / 32, lane = threadIdx.x % 32;
  xx += static_cast<int64>(d) * K * K;
  for (int sample = 0; sample < n_samples; ++sample) {
    for (int64 row0 = 0; row0 < n_rows; row0 += 32) {
      const bool is_observed_here = row0 + lane < n_rows && is_observed(masks, row0 + lane, D, d);
      const int64 at0 = sample * n_rows + row0;
      const int my_count = is_observed_here ? counts[at0 + lane] : 0;
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
        // Other lanes may add to the same entries for the next row of the data.
        __syncwarp();
      }
    }
  }
}

// Computes partial sums of o_id x_i x_i^T over chunk blockIdx.z of the lists of all kept samples. Matrix blockIdx.y
// belongs to a column, or to all columns if nothing is missing. A block computes the products of 64 features with 64
// features, and a thread sixteen of them. This is for dictionaries of which rows use a large part.
constexpr int kTile = 64, kLists = 32, kThreadFeatures = 4, kSingleLists = 8 * kLists;

extern "C" __global__ void __launch_bounds__((kTile / kThreadFeatures) * (kTile / kThreadFeatures))
    dense_joint(const int* counts, const Entry* entries, const unsigned short* masks, int64 n_rows, int n_samples,
                int K, int D, int64 chunk_lists, double* partial) {
  __shared__ real x[2][kLists][kTile];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
  const int n_tiles = (K + kTile - 1) / kTile, d = blockIdx.y;
  const int k0[2] = {kTile * (static_cast<int>(blockIdx.x) / n_tiles),
                     kTile * (static_cast<int>(blockIdx.x) % n_tiles)};
  const int at[2] = {kThreadFeatures * (static_cast<int>(threadIdx.x) / (kTile / kThreadFeatures)),
                     kThreadFeatures * (static_cast<int>(threadIdx.x) % (kTile / kThreadFeatures))};
  const int64 first = blockIdx.z * chunk_lists, last = min(first + chunk_lists, n_samples * n_rows);
  real sum[kThreadFeatures][kThreadFeatures] = {};
  double total[kThreadFeatures][kThreadFeatures] = {};
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
      for (int a = 0; a < kThreadFeatures; ++a)
#pragma unroll
        for (int b = 0; b < kThreadFeatures; ++b) sum[a][b] += x[0][i][at[0] + a] * x[1][i][at[1] + b];
    // Single precision is used for a limited number of lists only.
    if ((list0 - first) % kSingleLists == kSingleLists - kLists || list0 + kLists >= last) {
#pragma unroll
      for (int a = 0; a < kThreadFeatures; ++a) {
#pragma unroll
        for (int b = 0; b < kThreadFeatures; ++b) {
          total[a][b] += sum[a][b];
          sum[a][b] = 0;
        }
      }
    }
  }
  partial += (static_cast<int64>(blockIdx.z) * gridDim.y + d) * K * K;
#pragma unroll
  for (int a = 0; a < kThreadFeatures; ++a) {
#pragma unroll
    for (int b = 0; b < kThreadFeatures; ++b) {
      const int k = k0[0] + at[0] + a, l = k0[1] + at[1] + b;
      if (k < K && l < K) partial[static_cast<int64>(k) * K + l] = total[a][b];
    }
  }
}

// Adds the chunks to the sums so far, one thread for each sum.
extern "C" __global__ void reduce_joint(const double* partial, int n_chunks, int64 size, double* xx) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= size) return;
  double sum = 0;
  for (int chunk = 0; chunk < n_chunks; ++chunk) sum += partial[chunk * size + i];
  xx[i] += sum;
}
