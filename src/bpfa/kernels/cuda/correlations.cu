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
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at_row = lane / 4, at_column = lane % 4;
  const int k0 = 8 * block_tiles * blockIdx.y, n_tiles = min(block_tiles, (KP - k0) / 8);
  for (int i = threadIdx.x; i < STEPS * n_tiles * 32; i += blockDim.x) {
    const int tile = i / (STEPS * 32), step = i / 32 % STEPS;
    const float* phi = phi_rows + static_cast<int64>(k0 + 8 * tile + at_row) * D;
    const int d = 8 * step + at_column;
    const Split first(d < D ? phi[d] : 0), second(d + 4 < D ? phi[d + 4] : 0);
    packed[i] = make_float4(first.high, second.high, first.low, second.low);
  }
  __syncthreads();

  for (int64 row0 = kRows * (static_cast<int64>(blockIdx.x) * kWarps + warp); row0 < n_rows;
       row0 += static_cast<int64>(kRows) * kWarps * gridDim.x) {
    float high[STEPS][4], low[STEPS][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64 row = row0 + at_row + 8 * r;
      const bool live = row < n_rows;
      const int64 base = !live ? 0 : bases ? bases[ids[row]] : row * D;
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int d = 8 * step + at_column + 4 * i;
          const float value = live && d < D ? values[base + offsets[d]] : 0;
          if (live && d < D && blockIdx.y == 0) dense[row * D + d] = value;
          const Split split(value);
          high[step][2 * i + r] = split.high;
          low[step][2 * i + r] = split.low;
        }
      }
    }
    float* to = correlations + (row0 + at_row) * KP + k0 + 2 * at_column;
#pragma unroll 1
    for (int tile = 0; tile < n_tiles; ++tile) {
      // A product waits for the one before it in the same sum.
      float sum[4] = {}, small[4] = {};
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        const float4 phi = packed[(tile * STEPS + step) * 32 + lane];
        multiply_add(small, low[step], phi.x, phi.y);
        multiply_add(sum, high[step], phi.x, phi.y);
        multiply_add(small, high[step], phi.z, phi.w);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (row0 + at_row + 8 * r < n_rows)
          *reinterpret_cast<float2*>(to + 8 * tile + static_cast<int64>(8 * r) * KP) =
              make_float2(sum[2 * r] + small[2 * r], sum[2 * r + 1] + small[2 * r + 1]);
      }
    }
  }
}
