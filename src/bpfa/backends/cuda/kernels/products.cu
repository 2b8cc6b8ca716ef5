// Products of matrices for use inside recorded graphs, where cuBLAS cannot be used because its calls refuse to be
// recorded.
#include "common.cuh"

// Rows of either matrix that a block multiplies, columns that it holds in shared memory at a time, and rows of either
// matrix that a thread multiplies.
constexpr int kTile = 64, kColumns = 16, kRows = 4;

// C = A B^T, where A has n_a rows, B has n_b rows, and both have D columns; 256 threads.
extern "C" __global__ void __launch_bounds__(256)
    products_of_rows(const real* A, int64 n_a, const real* B, int64 n_b, int D, real* C) {
  // Padded by one row, so that threads that write different columns use different banks.
  __shared__ real a[kColumns][kTile + 1], b[kColumns][kTile + 1];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int64 first_a = static_cast<int64>(blockIdx.y) * kTile, first_b = static_cast<int64>(blockIdx.x) * kTile;
  real sum[kRows][kRows] = {};
  for (int d0 = 0; d0 < D; d0 += kColumns) {
    for (int row = y; row < kTile; row += 16) {
      const bool there = d0 + x < D;
      a[x][row] = there && first_a + row < n_a ? A[(first_a + row) * D + d0 + x] : real(0);
      b[x][row] = there && first_b + row < n_b ? B[(first_b + row) * D + d0 + x] : real(0);
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kColumns; ++d)
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kRows; ++j) sum[i][j] += a[d][y + 16 * i] * b[d][x + 16 * j];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const int64 row = first_a + y + 16 * i, column = first_b + x + 16 * j;
      if (row < n_a && column < n_b) C[row * n_b + column] = sum[i][j];
    }
}
