// Sums over the rows of a batch (MATH.md section 4) as products of matrices, on tensor cores: 32 rows at a time, in a
// fixed order; reduce_sums in sums.cu adds up what chunks of rows give. For single precision: a number is split into
// two that tensor cores take (tf32, 11 bits each), and of the four products all but that of the two small ones are
// made.
//
// Variants, by macro: SQUARES 0 for sum_i x_ik r_id and what is counted beside it, 1 for sum_i o_id x_ik^2; TILES of
// eight columns.
#include "common.cuh"

#ifndef SQUARES
#define SQUARES 0
#endif
#ifndef TILES
#define TILES 8
#endif

// A warp adds 16 features x all columns of a block, and brings two rows into shared memory.
constexpr int kRows = 32, kWarps = 16, kFeatures = 16 * kWarps, kColumns = 64, kOwnRows = 2;
// Eight more than a multiple of 32: the four rows and eight columns that the lanes of a warp read are in 32 banks.
constexpr int kFeatureStride = kFeatures + 8, kColumnStride = kColumns + 8;
// Of a round of rows: numbers of the features and of the columns, split. Rounds alternate between two places.
constexpr int kRound = 2 * kRows * (kFeatureStride + kColumnStride);

// A number rounded to what tensor cores take, and what that leaves, of which they take as much.
struct Split {
  float high, low;
  __device__ explicit Split(float x)
      : high(__uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u)), low(x - high) {}
};

__device__ inline void multiply_add(float (&to)[4], const float (&a)[4], float b0, float b1) {
  const auto bits = [](float x) { return __float_as_uint(x); };
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
      : "r"(bits(a[0])), "r"(bits(a[1])), "r"(bits(a[2])), "r"(bits(a[3])), "r"(bits(b0)), "r"(bits(b1)));
}

// The data is zero where it is not observed. Shared memory: two rounds, then a count of every feature.
extern "C" __global__ void __launch_bounds__(32 * kWarps)
    tensor_sums(const int* counts, const Entry* entries, const float* data, int64 sample_stride,
                const unsigned short* masks, const double* squares, const int* n_observed, int64 n_rows, int n_samples,
                int K, int D, int chunk_rows, float* partial, float* partial_n, float* partial_total,
                double* partial_rows) {
  extern __shared__ float4 shared[];
  float* rounds = reinterpret_cast<float*>(shared);
  int* users = reinterpret_cast<int*>(rounds + 2 * kRound);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int k0 = kFeatures * blockIdx.y, d0 = kColumns * blockIdx.z;
  const int64 first = static_cast<int64>(blockIdx.x) * chunk_rows;
  const int n_here = static_cast<int>(min(static_cast<int64>(chunk_rows), n_rows - first));
  const int n_groups = (n_here + kRows - 1) / kRows;
  for (int i = threadIdx.x; i < kFeatures; i += blockDim.x) users[i] = 0;
  __syncthreads();

  // What is on its way to shared memory while the rows before are added: of rows beyond the last, no feature.
  int next_count[kOwnRows];
  Entry next_entry[kOwnRows];
  float next_value[kOwnRows][2];
  const auto row_of = [&](int group, int r) { return first + min(group * kRows + warp * kOwnRows + r, n_here - 1); };
  const auto fetch = [&](int group, int sample) {
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      const int64 row = row_of(group, r), at = sample * n_rows + row;
      next_count[r] = group * kRows + warp * kOwnRows + r < n_here ? counts[at] : 0;
      next_entry[r] = entries[at * K + min(lane, K - 1)];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int d = d0 + lane + 32 * j;
        if (SQUARES)
          next_value[r][j] = d < D && (masks[row * ((D + 15) / 16) + d / 16] >> d % 16 & 1) ? 1 : 0;
        else
          next_value[r][j] = d < D ? data[sample * sample_stride + row * D + d] : 0;
      }
    }
  };
  // Puts it there; squares of all samples of a row come together.
  const auto put = [&](float* round, int group, int sample) {
    float* high = round;
    float* low = high + kRows * kFeatureStride;
    float* data_high = low + kRows * kFeatureStride;
    float* data_low = data_high + kRows * kColumnStride;
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      const int i = warp * kOwnRows + r;
      float4* both[2] = {reinterpret_cast<float4*>(high + i * kFeatureStride),
                         reinterpret_cast<float4*>(low + i * kFeatureStride)};
      if (!SQUARES || sample == 0) {
#pragma unroll
        for (int j = 0; j < 2; ++j) both[j][lane] = both[j][lane + 32] = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int at = i * kColumnStride + lane + 32 * j;
          if (SQUARES) {
            data_high[at] = next_value[r][j];
          } else {
            const Split split(next_value[r][j]);
            data_high[at] = split.high;
            data_low[at] = split.low;
          }
        }
      }
      __syncwarp();
      for (int e = lane; e < next_count[r]; e += 32) {
        const Entry entry = e == lane ? next_entry[r] : entries[(sample * n_rows + row_of(group, r)) * K + e];
        const int f = entry.feature - k0;
        if (f < 0 || f >= kFeatures) continue;
        const int at = i * kFeatureStride + f;
        const Split split(SQUARES ? entry.weight * entry.weight + high[at] + low[at] : entry.weight);
        high[at] = split.high;
        low[at] = split.low;
        if (!SQUARES) atomicAdd(users + f, 1);
      }
    }
  };

  float sums[TILES][4] = {}, total[2] = {};
  const int at_row = lane % 4, at_feature = 16 * warp + lane / 4;
  fetch(0, 0);
  int place = 0;
  for (int group = 0; group < n_groups; ++group) {
    for (int sample = 0; sample < n_samples; ++sample) {
      float* round = rounds + place * kRound;
      put(round, group, sample);
      if (sample + 1 < n_samples)
        fetch(group, sample + 1);
      else if (group + 1 < n_groups)
        fetch(group + 1, 0);
      if (SQUARES && sample + 1 < n_samples) continue;
      // The round is there for all, and nobody is at the one before it, whose place the next one takes.
      __syncthreads();
      place ^= 1;
      const float* high = round;
      const float* low = high + kRows * kFeatureStride;
      const float* data_high = low + kRows * kFeatureStride;
      const float* data_low = data_high + kRows * kColumnStride;
      // Tensor cores cut off what they would have to round: only the rows of one round are left to them.
      float sum[TILES][4] = {};
#pragma unroll 1
      for (int row0 = 0; row0 < kRows; row0 += 8) {
        float a[4], a_low[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = (row0 + at_row + i / 2 * 4) * kFeatureStride + at_feature + i % 2 * 8;
          a[i] = high[at];
          a_low[i] = low[at];
          if (!SQUARES) {
            const float x = a[i] + a_low[i];
            total[i % 2] += x * x;
          }
        }
        // Most features are in few rows.
        if (__ballot_sync(EVERY_LANE, a[0] != 0 || a[1] != 0 || a[2] != 0 || a[3] != 0) == 0) continue;
        // A product waits for the one before it in the same tile: tiles take turns.
        const int at = (row0 + at_row) * kColumnStride + lane / 4, below = at + 4 * kColumnStride;
        float b[TILES][2];
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
          b[tile][0] = data_high[at + 8 * tile];
          b[tile][1] = data_high[below + 8 * tile];
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) multiply_add(sum[tile], a_low, b[tile][0], b[tile][1]);
        if (!SQUARES) {
#pragma unroll
          for (int tile = 0; tile < TILES; ++tile)
            multiply_add(sum[tile], a, data_low[at + 8 * tile], data_low[below + 8 * tile]);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) multiply_add(sum[tile], a, b[tile][0], b[tile][1]);
      }
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[tile][i] += sum[tile][i];
    }
  }

  const int64 chunk = static_cast<int64>(blockIdx.x) * K;
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = k0 + at_feature + i / 2 * 8, d = d0 + 8 * tile + 2 * (lane % 4) + i % 2;
      if (k < K && d < D) partial[(chunk + k) * D + d] = sums[tile][i];
    }
  }
  if (SQUARES || blockIdx.z) return;
  // Of a feature four lanes have added, each in rows of its own.
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float sum = lane_sum<4>(total[i]);
    const int f = at_feature + 8 * i;
    if (lane % 4 != 0 || k0 + f >= K) continue;
    partial_n[chunk + k0 + f] = users[f];
    partial_total[chunk + k0 + f] = sum;
  }
  if (blockIdx.y) return;
  double own_squares = 0, own_observed = 0;
  for (int i = threadIdx.x; i < n_here; i += blockDim.x) {
    own_squares += squares[first + i];
    own_observed += n_observed ? n_observed[first + i] : D;
  }
  own_squares = lane_sum<32>(own_squares);
  own_observed = lane_sum<32>(own_observed);
  double* of_warps = reinterpret_cast<double*>(shared);
  if (lane == 0) {
    of_warps[warp] = own_squares;
    of_warps[kWarps + warp] = own_observed;
  }
  __syncthreads();
  if (threadIdx.x < 2) {
    double sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += of_warps[threadIdx.x * kWarps + i];
    partial_rows[threadIdx.x * gridDim.x + blockIdx.x] = sum;
  }
}
