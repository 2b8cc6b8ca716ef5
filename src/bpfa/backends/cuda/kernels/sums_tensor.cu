// Sums over the rows of a batch (docs/math.md section 4) as products of matrices on tensor cores, 32 rows at a time and
// in a fixed order. The results are partial sums over chunks of rows, which reduce_sums in sums.cu adds up. For single
// precision.
//
// Variants, selected by macro: SQUARES is 0 for sum_i x_ik r_id together with the sums for features and for rows alone,
// and 1 for sum_i o_id x_ik^2; TILES, the number of tiles of eight columns; BUFFERS, the number of buffers in shared
// memory for 32 rows each: 2, or 1 if there is little shared memory.
#include "common.cuh"
#include "tensor.cuh"

#ifndef SQUARES
#define SQUARES 0
#endif
#ifndef TILES
#define TILES 8
#endif
#ifndef BUFFERS
#define BUFFERS 2
#endif

// A block computes the sums for 256 features and 64 columns. The features that are on in most rows may all be in one
// tile of sixteen features, so tiles are dealt to the warps: each warp takes every fourth tile, for sixteen of the
// columns. It also loads some of the rows into shared memory.
constexpr int kRows = 32, kWarps = 16, kFeatures = 256, kColumns = 64, kWarpRows = kRows / kWarps;
constexpr int kWarpTiles = kFeatures / 16 / 4, kWarpColumnTiles = kColumns / 8 / 4;
// The strides are eight more than a multiple of 32, so that the four rows and eight columns that the lanes of a warp
// read together are in 32 different banks.
constexpr int kFeatureStride = kFeatures + 8, kColumnStride = kColumns + 8;
// The size of a buffer, which holds a round of 32 rows: x of the features, and the data in the columns, split into high
// and low parts. Rounds alternate between the buffers.
constexpr int kRoundNumbers = kRows * (kFeatureStride + 2 * kColumnStride);
// The number of samples whose lists of features are loaded together.
constexpr int kTogether = SQUARES ? 3 : 1;

// The data must be zero at missing entries. Shared memory holds the buffers, then for each buffer the tiles of features
// that each warp's rows use, one bit for each tile, and then a count for every feature.
extern "C" __global__ void __launch_bounds__(32 * kWarps)
    tensor_sums(const int* counts, const Entry* entries, const float* data, int64 sample_stride,
                const unsigned short* masks, const double* squares, const int* n_observed, int64 n_rows, int n_samples,
                int K, int D, float* partial, float* partial_n, float* partial_total, double* partial_rows) {
  extern __shared__ float4 shared[];
  float* rounds = reinterpret_cast<float*>(shared);
  unsigned* tiles_used = reinterpret_cast<unsigned*>(rounds + BUFFERS * kRoundNumbers);
  int* users = reinterpret_cast<int*>(tiles_used + BUFFERS * kWarps);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int k0 = kFeatures * blockIdx.y, d0 = kColumns * blockIdx.z;
  // Blocks take rounds of rows in turn instead of a contiguous range each. Adjacent rows, such as the patches of one
  // part of a picture, are much alike, and some blocks would have more work than others.
  const int64 first = static_cast<int64>(blockIdx.x) * kRows, stride = static_cast<int64>(gridDim.x) * kRows;
  const int n_groups = static_cast<int>((n_rows - first + stride - 1) / stride);
  for (int i = threadIdx.x; i < kFeatures; i += blockDim.x) users[i] = 0;
  __syncthreads();

  // The next rows, which are loaded into registers while the current ones are added. Rows beyond the last one have no
  // features.
  int next_count[kTogether][kWarpRows];
  Entry next_entry[kTogether][kWarpRows];
  float next_value[kWarpRows][2];
  // The next rows of this warp and the next sample of them; all samples of a row follow one another.
  int64 next_row = first + warp * kWarpRows;
  int next_sample = 0;
  const bool column_here[2] = {d0 + lane < D, d0 + lane + 32 < D};
  const auto fetch = [&] {
    const int64 at = next_sample * n_rows + next_row;
    const Entry* list = entries + at * K + min(lane, K - 1);
    const float* value = data + (next_sample * sample_stride + next_row * D + d0 + lane);
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
      const bool here = next_row + r < n_rows;
#pragma unroll
      for (int q = 0; q < kTogether; ++q) {
        const bool there = here && next_sample + q < n_samples;
        next_count[q][r] = there ? counts[at + q * n_rows + r] : 0;
        if (there) next_entry[q][r] = list[(q * n_rows + r) * K];
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int d = d0 + lane + 32 * j;
        next_value[r][j] = 0;
        if (!here || !column_here[j]) continue;
        if (SQUARES)
          next_value[r][j] = masks[(next_row + r) * ((D + 15) / 16) + d / 16] >> d % 16 & 1 ? 1 : 0;
        else
          next_value[r][j] = value[r * D + 32 * j];
      }
    }
  };
  // Stores them in a buffer. The squares of all samples of a row are added up there.
  const auto store_round = [&](int buffer) {
    const unsigned x = shared_address(rounds) + 4 * (buffer * kRoundNumbers + warp * kWarpRows * kFeatureStride);
    const unsigned columns = shared_address(rounds + kRows * kFeatureStride) +
                             4 * (buffer * kRoundNumbers + warp * kWarpRows * kColumnStride + lane);
    unsigned used = 0;
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
      const unsigned own = x + 4 * r * kFeatureStride;
      if (!SQUARES || next_sample == 0) {
#pragma unroll
        for (int j = 0; j < 2; ++j) at_shared<float4>(own + 16 * lane + 512 * j) = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const unsigned at = columns + 4 * (r * kColumnStride + 32 * j);
          const Split split(next_value[r][j]);
          at_shared<float>(at) = split.high;
          if (!SQUARES) at_shared<float>(at + 4 * kRows * kColumnStride) = split.low;
        }
      }
      const auto store_entry = [&](Entry entry) {
        const unsigned f = entry.feature - k0;
        if (f >= kFeatures) return;
        float& to = at_shared<float>(own + 4 * f);
        to = SQUARES ? to + entry.weight * entry.weight : entry.weight;
        used |= 1u << f / 16;
        if (!SQUARES) atomicAdd(users + f, 1);
      };
#pragma unroll
      for (int q = 0; q < kTogether; ++q) {
        __syncwarp();
        if (lane < next_count[q][r]) store_entry(next_entry[q][r]);
#pragma unroll 1
        for (int e = lane + 32; e < next_count[q][r]; e += 32)
          store_entry(entries[((next_sample + q) * n_rows + next_row + r) * K + e]);
      }
    }
    used = __reduce_or_sync(EVERY_LANE, used);
    unsigned& to = tiles_used[buffer * kWarps + warp];
    if (lane == 0) to = SQUARES && next_sample > 0 ? to | used : used;
  };

  float sums[kWarpTiles][kWarpColumnTiles][4] = {}, total[kWarpTiles][2] = {};
  // Warps with the same number modulo 4 run on the same quarter of a multiprocessor. They are given different tiles, so
  // that the work is balanced between the quarters.
  const int column_tile = warp / 4 * kWarpColumnTiles, first_tile = (warp + warp / 4) % 4;
  const bool columns_here = column_tile < TILES;
  const int fragment_row = lane % 4, fragment_feature = 16 * first_tile + lane / 4;
  const unsigned own_x = shared_address(rounds + fragment_row * kFeatureStride + fragment_feature);
  const unsigned own_data =
      shared_address(rounds + kRows * kFeatureStride + fragment_row * kColumnStride + 8 * column_tile + lane / 4);
  const unsigned own_used = shared_address(tiles_used);
  fetch();
  int buffer = 0;
#pragma unroll 1
  for (int group = 0; group < n_groups; ++group) {
#pragma unroll 1
    for (int sample = 0; sample < n_samples; sample += kTogether) {
      if (BUFFERS == 1 && (!SQUARES || sample == 0)) __syncthreads();
      store_round(buffer);
      next_sample += kTogether;
      if (next_sample >= n_samples) {
        next_sample = 0;
        next_row += stride;
      }
      fetch();
      if (SQUARES && sample + kTogether < n_samples) continue;
      // Now the whole round is in its buffer. If there are two buffers, no warp still reads the one that the next round
      // is going to overwrite.
      __syncthreads();
      unsigned x_at = own_x + buffer * kRoundNumbers * 4, data_at = own_data + buffer * kRoundNumbers * 4;
      unsigned used_at = own_used + buffer * kWarps * 4;
      buffer ^= BUFFERS - 1;
      if (!columns_here) continue;
      // Tensor cores truncate sums instead of rounding them, so that errors would accumulate. They therefore add up 32
      // rows only, and the results are added by ordinary instructions.
      float sum[kWarpTiles][kWarpColumnTiles][4] = {};
#pragma unroll 1
      for (int row0 = 0; row0 < kRows; row0 += 8) {
        const uint4 by_warp = at_shared<const uint4>(used_at);
        const unsigned used = (by_warp.x | by_warp.y | by_warp.z | by_warp.w) >> first_tile;
        const unsigned x_here = x_at, data_here = data_at;
        used_at += 8 / kWarpRows * 4;
        x_at += 8 * kFeatureStride * 4;
        data_at += 8 * kColumnStride * 4;
        // Most features are on in few rows, so often none of this warp's tiles is used.
        if ((used & 0x1111u) == 0) continue;
        float b[kWarpColumnTiles][2], b_low[kWarpColumnTiles][2];
#pragma unroll
        for (int j = 0; j < kWarpColumnTiles; ++j) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const unsigned at = data_here + 4 * (8 * j + i * 4 * kColumnStride);
            b[j][i] = at_shared<const float>(at);
            if (!SQUARES) b_low[j][i] = at_shared<const float>(at + 4 * kRows * kColumnStride);
          }
        }
#pragma unroll
        for (int tile = 0; tile < kWarpTiles; ++tile) {
          if ((used >> 4 * tile & 1) == 0) continue;
          float a[4], a_low[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float own = at_shared<const float>(x_here + 4 * (i / 2 * 4 * kFeatureStride + 64 * tile + i % 2 * 8));
            const Split split(own);
            a[i] = split.high;
            a_low[i] = split.low;
            if (!SQUARES) total[tile][i % 2] += own * own;
          }
          // Each product has to wait for the previous one that adds to the same accumulator, so the loop over
          // accumulators is the inner one.
#pragma unroll
          for (int j = 0; j < kWarpColumnTiles; ++j) multiply_add(sum[tile][j], a_low, b[j][0], b[j][1]);
          if (!SQUARES) {
#pragma unroll
            for (int j = 0; j < kWarpColumnTiles; ++j) multiply_add(sum[tile][j], a, b_low[j][0], b_low[j][1]);
          }
#pragma unroll
          for (int j = 0; j < kWarpColumnTiles; ++j) multiply_add(sum[tile][j], a, b[j][0], b[j][1]);
        }
      }
#pragma unroll
      for (int tile = 0; tile < kWarpTiles; ++tile)
#pragma unroll
        for (int j = 0; j < kWarpColumnTiles; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[tile][j][i] += sum[tile][j][i];
    }
  }

  const int64 chunk = static_cast<int64>(blockIdx.x) * K;
#pragma unroll
  for (int tile = 0; tile < kWarpTiles; ++tile) {
#pragma unroll
    for (int j = 0; j < kWarpColumnTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = k0 + fragment_feature + 64 * tile + i / 2 * 8,
                  d = d0 + 8 * (column_tile + j) + 2 * (lane % 4) + i % 2;
        if (k < K && d < D) partial[(chunk + k) * D + d] = sums[tile][j][i];
      }
    }
  }
  if (SQUARES || blockIdx.z) return;
  // Four lanes have each added up the squares of a feature in different rows.
  __syncthreads();
  if (column_tile == 0) {
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float sum = lane_sum<4>(total[tile][i]);
        const int f = fragment_feature + 64 * tile + 8 * i;
        if (lane % 4 != 0 || k0 + f >= K) continue;
        partial_n[chunk + k0 + f] = users[f];
        partial_total[chunk + k0 + f] = sum;
      }
    }
  }
  if (blockIdx.y) return;
  double own_squares = 0, own_observed = 0;
  for (int i = threadIdx.x; i < n_groups * kRows; i += blockDim.x) {
    const int64 row = first + i / kRows * stride + i % kRows;
    if (row >= n_rows) break;
    own_squares += squares[row];
    own_observed += n_observed ? n_observed[row] : D;
  }
  own_squares = lane_sum<32>(own_squares);
  own_observed = lane_sum<32>(own_observed);
  double* by_warp = reinterpret_cast<double*>(shared);
  if (lane == 0) {
    by_warp[warp] = own_squares;
    by_warp[kWarps + warp] = own_observed;
  }
  __syncthreads();
  if (threadIdx.x < 2) {
    double sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += by_warp[threadIdx.x * kWarps + i];
    partial_rows[threadIdx.x * gridDim.x + blockIdx.x] = sum;
  }
}
