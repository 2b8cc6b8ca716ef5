// Gathers the rows of a batch into dense matrices, and counts observed entries.
#include "common.cuh"

// Entry d of row i is at bases[ids[i]] + offsets[d], or at i D + offsets[d] if bases is null. Missing entries become
// zero in `dense`; `indicators` is 1 at observed entries and 0 at missing ones. Either output may be null.
extern "C" __global__ void gather_rows(const real* values, const unsigned char* observed, const int64* ids,
                                       const int64* bases, const int* offsets, int64 n_rows, int D, real* dense,
                                       real* indicators) {
  // One warp processes one row.
  const int lane = threadIdx.x % 32, n_warps = gridDim.x * (blockDim.x / 32);
  for (int64 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < n_rows; row += n_warps) {
    const int64 base = bases ? bases[ids[row]] : row * D;
    for (int d = lane; d < D; d += 32) {
      const int64 at = base + offsets[d];
      const bool o = observed == nullptr || observed[at];
      if (dense) dense[row * D + d] = o ? values[at] : 0;
      if (indicators) indicators[row * D + d] = o ? 1 : 0;
    }
  }
}

// Counts the observed entries of each row of a source of data.
extern "C" __global__ void count_observed(const unsigned char* observed, const int64* bases, const int* offsets,
                                          int64 n_rows, int D, int* counts) {
  const int64 row = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= n_rows) return;
  int count = 0;
  for (int d = 0; d < D; ++d) count += observed[bases[row] + offsets[d]] != 0;
  counts[row] = count;
}
