// Complete rows as a dense matrix, and their correlations with all features, of which Gibbs chains change what a
// feature that changes makes different. For single precision and up to 64 columns.
//
// Variants, by macro: STEPS of eight columns.
#include "common.cuh"
#include "tensor.cuh"

#ifndef STEPS
#define STEPS 8
#endif

// Rows of a warp, and warps of a block.
constexpr int kRows = 16, kWarps = 16;

// Entry d of row i is at bases[ids[i]] + offsets[d], or at i D + offsets[d] without bases. A block has some tiles of
// eight features, whose numbers are in its shared memory.
extern "C" __global__ void __launch_bounds__(32 * kWarps)
    correlate_rows(const float* values, const int64* ids, const int64* bases, const int* offsets, int64 n_rows, int D,
                   int KP, int block_tiles, const float* phi_rows, float* dense, float* correlations) {
  // Of eight features and eight columns what a lane needs for a product: two numbers, split.
  extern __shared__ float4 packed[];
  int* places = reinterpret_cast<int*>(packed + STEPS * block_tiles * 32);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at_row = lane / 4, at_column = lane % 4;
  const int k0 = 8 * block_tiles * blockIdx.y, n_tiles = min(block_tiles, (KP - k0) / 8);
  for (int i = threadIdx.x; i < STEPS * n_tiles * 32; i += blockDim.x) {
    const int tile = i / (STEPS * 32), step = i / 32 % STEPS;
    const float* phi = phi_rows + static_cast<int64>(k0 + 8 * tile + at_row) * D;
    const int d = 8 * step + at_column;
    const Split first(d < D ? phi[d] : 0), second(d + 4 < D ? phi[d + 4] : 0);
    packed[i] = make_float4(first.high, second.high, first.low, second.low);
  }
  for (int d = threadIdx.x; d < D; d += blockDim.x) places[d] = offsets[d];
  __syncthreads();

  for (int64 row0 = kRows * (static_cast<int64>(blockIdx.x) * kWarps + warp); row0 < n_rows;
       row0 += static_cast<int64>(kRows) * kWarps * gridDim.x) {
    // All are on their way before the first is written.
    float high[STEPS][4], low[STEPS][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64 row = row0 + at_row + 8 * r;
      const int64 base = row >= n_rows ? 0 : bases ? bases[ids[row]] : row * D;
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int d = 8 * step + at_column + 4 * i;
          high[step][2 * i + r] = row < n_rows && d < D ? values[base + places[d]] : 0;
        }
      }
    }
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64 row = row0 + at_row + 8 * (i % 2);
        const int d = 8 * step + at_column + 4 * (i / 2);
        if (row < n_rows && d < D && blockIdx.y == 0) dense[row * D + d] = high[step][i];
        const Split split(high[step][i]);
        high[step][i] = split.high;
        low[step][i] = split.low;
      }
    }
    float* to = correlations + (row0 + at_row) * KP + k0 + 2 * at_column;
    const bool both = row0 + at_row + 8 < n_rows, one = row0 + at_row < n_rows;
#pragma unroll 1
    for (int tile = 0; tile < n_tiles; ++tile, to += 8) {
      // A product waits for the one before it in the same sum.
      float sum[4] = {}, small[2][4] = {};
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        const float4 phi = packed[(tile * STEPS + step) * 32 + lane];
        multiply_add(small[0], low[step], phi.x, phi.y);
        multiply_add(small[1], high[step], phi.z, phi.w);
        multiply_add(sum, high[step], phi.x, phi.y);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += small[0][i] + small[1][i];
      if (one) *reinterpret_cast<float2*>(to) = make_float2(sum[0], sum[1]);
      if (both) *reinterpret_cast<float2*>(to + 8 * KP) = make_float2(sum[2], sum[3]);
    }
  }
}
