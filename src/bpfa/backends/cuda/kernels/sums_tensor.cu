// Sums over the rows of a batch (docs/math.md section 4) as products of matrices, on tensor cores: 32 rows at a time,
// in a fixed order; reduce_sums in sums.cu adds up what chunks of rows give. For single precision.
//
// Variants, by macro: SQUARES 0 for sum_i x_ik r_id and what is counted beside it, 1 for sum_i o_id x_ik^2; TILES of
// eight columns; PLACES in shared memory for 32 rows, 2 or, where it is small, 1.
#include "common.cuh"
#include "tensor.cuh"

#ifndef SQUARES
#define SQUARES 0
#endif
#ifndef TILES
#define TILES 8
#endif
#ifndef PLACES
#define PLACES 2
#endif

// A block has 256 features x 64 columns. The features that most rows have on may all be in one tile of sixteen, so a
// warp adds every fourth tile, in sixteen columns. It brings some rows into shared memory.
constexpr int kRows = 32, kWarps = 16, kFeatures = 256, kColumns = 64, kOwnRows = kRows / kWarps;
constexpr int kOwnTiles = kFeatures / 16 / 4, kOwnColumnTiles = kColumns / 8 / 4;
// Eight more than a multiple of 32: the four rows and eight columns that the lanes of a warp read are in 32 banks.
constexpr int kFeatureStride = kFeatures + 8, kColumnStride = kColumns + 8;
// Of a round of rows: x of the features, and numbers of the columns, split. Rounds take turns at the places.
constexpr int kRound = kRows * (kFeatureStride + 2 * kColumnStride);
// Samples whose features are brought into shared memory together.
constexpr int kTogether = SQUARES ? 3 : 1;

// The data is zero where it is not observed. Shared memory: the places, for each the tiles that the rows of a warp
// have, and a count of every feature.
extern "C" __global__ void __launch_bounds__(32 * kWarps)
    tensor_sums(const int* counts, const Entry* entries, const float* data, int64 sample_stride,
                const unsigned short* masks, const double* squares, const int* n_observed, int64 n_rows, int n_samples,
                int K, int D, float* partial, float* partial_n, float* partial_total, double* partial_rows) {
  extern __shared__ float4 shared[];
  float* rounds = reinterpret_cast<float*>(shared);
  unsigned* tiles_used = reinterpret_cast<unsigned*>(rounds + PLACES * kRound);
  int* users = reinterpret_cast<int*>(tiles_used + PLACES * kWarps);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int k0 = kFeatures * blockIdx.y, d0 = kColumns * blockIdx.z;
  // Blocks take turns: neighbours, such as the patches of a part of a picture, are much alike.
  const int64 first = static_cast<int64>(blockIdx.x) * kRows, stride = static_cast<int64>(gridDim.x) * kRows;
  const int n_groups = static_cast<int>((n_rows - first + stride - 1) / stride);
  for (int i = threadIdx.x; i < kFeatures; i += blockDim.x) users[i] = 0;
  __syncthreads();

  // What is on its way to shared memory while the rows before are added: of rows beyond the last, no feature.
  int next_count[kTogether][kOwnRows];
  Entry next_entry[kTogether][kOwnRows];
  float next_value[kOwnRows][2];
  // Where the next rows of this warp are, in the samples one after another.
  int64 next_row = first + warp * kOwnRows;
  int next_sample = 0;
  const bool column_here[2] = {d0 + lane < D, d0 + lane + 32 < D};
  const auto fetch = [&] {
    const int64 at = next_sample * n_rows + next_row;
    const Entry* list = entries + at * K + min(lane, K - 1);
    const float* value = data + (next_sample * sample_stride + next_row * D + d0 + lane);
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
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
  // Puts it there; squares of all samples of a row come together.
  const auto put = [&](int place) {
    const unsigned x = shared_address(rounds) + 4 * (place * kRound + warp * kOwnRows * kFeatureStride);
    const unsigned columns =
        shared_address(rounds + kRows * kFeatureStride) + 4 * (place * kRound + warp * kOwnRows * kColumnStride + lane);
    unsigned used = 0;
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
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
      const auto place_entry = [&](Entry entry) {
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
        if (lane < next_count[q][r]) place_entry(next_entry[q][r]);
#pragma unroll 1
        for (int e = lane + 32; e < next_count[q][r]; e += 32)
          place_entry(entries[((next_sample + q) * n_rows + next_row + r) * K + e]);
      }
    }
    used = __reduce_or_sync(EVERY_LANE, used);
    unsigned& to = tiles_used[place * kWarps + warp];
    if (lane == 0) to = SQUARES && next_sample > 0 ? to | used : used;
  };

  float sums[kOwnTiles][kOwnColumnTiles][4] = {}, total[kOwnTiles][2] = {};
  // The warps of a quarter of the multiprocessor are warp, warp + 4, ...: they have different tiles.
  const int column_tile = warp / 4 * kOwnColumnTiles, first_tile = (warp + warp / 4) % 4;
  const bool columns_here = column_tile < TILES;
  const int at_row = lane % 4, at_feature = 16 * first_tile + lane / 4;
  const unsigned own_x = shared_address(rounds + at_row * kFeatureStride + at_feature);
  const unsigned own_data =
      shared_address(rounds + kRows * kFeatureStride + at_row * kColumnStride + 8 * column_tile + lane / 4);
  const unsigned own_used = shared_address(tiles_used);
  fetch();
  int place = 0;
#pragma unroll 1
  for (int group = 0; group < n_groups; ++group) {
#pragma unroll 1
    for (int sample = 0; sample < n_samples; sample += kTogether) {
      if (PLACES == 1 && (!SQUARES || sample == 0)) __syncthreads();
      put(place);
      next_sample += kTogether;
      if (next_sample >= n_samples) {
        next_sample = 0;
        next_row += stride;
      }
      fetch();
      if (SQUARES && sample + kTogether < n_samples) continue;
      // The round is there for all; and where there are two places, nobody is at the one that the next round takes.
      __syncthreads();
      unsigned x_at = own_x + place * kRound * 4, data_at = own_data + place * kRound * 4;
      unsigned used_at = own_used + place * kWarps * 4;
      place ^= PLACES - 1;
      if (!columns_here) continue;
      // Tensor cores cut off what they would have to round: only 32 rows are left to them.
      float sum[kOwnTiles][kOwnColumnTiles][4] = {};
#pragma unroll 1
      for (int row0 = 0; row0 < kRows; row0 += 8) {
        const uint4 of_warps = at_shared<const uint4>(used_at);
        const unsigned used = (of_warps.x | of_warps.y | of_warps.z | of_warps.w) >> first_tile;
        const unsigned x_here = x_at, data_here = data_at;
        used_at += 8 / kOwnRows * 4;
        x_at += 8 * kFeatureStride * 4;
        data_at += 8 * kColumnStride * 4;
        // Most features are in few rows.
        if ((used & 0x1111u) == 0) continue;
        float b[kOwnColumnTiles][2], b_low[kOwnColumnTiles][2];
#pragma unroll
        for (int j = 0; j < kOwnColumnTiles; ++j) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const unsigned at = data_here + 4 * (8 * j + i * 4 * kColumnStride);
            b[j][i] = at_shared<const float>(at);
            if (!SQUARES) b_low[j][i] = at_shared<const float>(at + 4 * kRows * kColumnStride);
          }
        }
#pragma unroll
        for (int tile = 0; tile < kOwnTiles; ++tile) {
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
          // A product waits for the one before it in the same place.
#pragma unroll
          for (int j = 0; j < kOwnColumnTiles; ++j) multiply_add(sum[tile][j], a_low, b[j][0], b[j][1]);
          if (!SQUARES) {
#pragma unroll
            for (int j = 0; j < kOwnColumnTiles; ++j) multiply_add(sum[tile][j], a, b_low[j][0], b_low[j][1]);
          }
#pragma unroll
          for (int j = 0; j < kOwnColumnTiles; ++j) multiply_add(sum[tile][j], a, b[j][0], b[j][1]);
        }
      }
#pragma unroll
      for (int tile = 0; tile < kOwnTiles; ++tile)
#pragma unroll
        for (int j = 0; j < kOwnColumnTiles; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[tile][j][i] += sum[tile][j][i];
    }
  }

  const int64 chunk = static_cast<int64>(blockIdx.x) * K;
#pragma unroll
  for (int tile = 0; tile < kOwnTiles; ++tile) {
#pragma unroll
    for (int j = 0; j < kOwnColumnTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = k0 + at_feature + 64 * tile + i / 2 * 8, d = d0 + 8 * (column_tile + j) + 2 * (lane % 4) + i % 2;
        if (k < K && d < D) partial[(chunk + k) * D + d] = sums[tile][j][i];
      }
    }
  }
  if (SQUARES || blockIdx.z) return;
  // Of a feature four lanes have added, each in rows of its own.
  __syncthreads();
  if (column_tile == 0) {
#pragma unroll
    for (int tile = 0; tile < kOwnTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float sum = lane_sum<4>(total[tile][i]);
        const int f = at_feature + 64 * tile + 8 * i;
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
