// Gathers complete rows into a dense matrix and computes their correlations with all features, on tensor cores. Gibbs
// chains start from these correlations and update them as features change. For single precision and up to 64 columns.
//
// Variants, selected by macro: STEPS, the number of steps of eight columns each.
#include "common.cuh"
#include "tensor.cuh"

#ifndef STEPS
#define STEPS 8
#endif

// Rows that a warp processes at a time, and warps in a block.
constexpr int kRows = 16, kWarps = 16;

// Entry d of row i is at bases[ids[i]] + offsets[d], or at i D + offsets[d] if bases is null. A block computes the
// correlations with block_tiles tiles of eight features each, which it keeps in shared memory.
extern "C" __global__ void __launch_bounds__(32 * kWarps)
    correlate_rows(const float* values, const int64* ids, const int64* bases, const int* offsets, int64 n_rows, int D,
                   int KP, int block_tiles, const float* phi_rows, float* dense, float* correlations) {
  // For every tile of eight features and step of eight columns, the operand of each lane: two entries of phi, split
  // into high and low parts as in tensor.cuh.
  extern __shared__ float4 packed[];
  int* column_offsets = reinterpret_cast<int*>(packed + STEPS * block_tiles * 32);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, fragment_row = lane / 4, fragment_column = lane % 4;
  const int k0 = 8 * block_tiles * blockIdx.y, n_tiles = min(block_tiles, (KP - k0) / 8);
  for (int i = threadIdx.x; i < STEPS * n_tiles * 32; i += blockDim.x) {
    const int tile = i / (STEPS * 32), step = i / 32 % STEPS;
    const float* phi = phi_rows + static_cast<int64>(k0 + 8 * tile + fragment_row) * D;
    const int d = 8 * step + fragment_column;
    const Split first(d < D ? phi[d] : 0), second(d + 4 < D ? phi[d + 4] : 0);
    packed[i] = make_float4(first.high, second.high, first.low, second.low);
  }
  for (int d = threadIdx.x; d < D; d += blockDim.x) column_offsets[d] = offsets[d];
  __syncthreads();

  for (int64 row0 = kRows * (static_cast<int64>(blockIdx.x) * kWarps + warp); row0 < n_rows;
       row0 += static_cast<int64>(kRows) * kWarps * gridDim.x) {
    // All loads are issued before the first value is used, so that the latencies overlap.
    float high[STEPS][4], low[STEPS][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64 row = row0 + fragment_row + 8 * r;
      const int64 base = row >= n_rows ? 0 : bases ? bases[ids[row]] : row * D;
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int d = 8 * step + fragment_column + 4 * i;
          high[step][2 * i + r] = row < n_rows && d < D ? values[base + column_offsets[d]] : 0;
        }
      }
    }
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64 row = row0 + fragment_row + 8 * (i % 2);
        const int d = 8 * step + fragment_column + 4 * (i / 2);
        if (row < n_rows && d < D && blockIdx.y == 0) dense[row * D + d] = high[step][i];
        const Split split(high[step][i]);
        high[step][i] = split.high;
        low[step][i] = split.low;
      }
    }
    // The layout of the result in a warp: a lane has two adjacent features in each of two rows, eight rows apart.
    float* to = correlations + (row0 + fragment_row) * KP + k0 + 2 * fragment_column;
    const bool second_exists = row0 + fragment_row + 8 < n_rows, first_exists = row0 + fragment_row < n_rows;
#pragma unroll 1
    for (int tile = 0; tile < n_tiles; ++tile, to += 8) {
      // Each product has to wait for the previous one that adds to the same accumulator, so there are three
      // accumulators.
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
      if (first_exists) *reinterpret_cast<float2*>(to) = make_float2(sum[0], sum[1]);
      if (second_exists) *reinterpret_cast<float2*>(to + 8 * KP) = make_float2(sum[2], sum[3]);
    }
  }
}
