// Rows as dense matrices: from where they are to one after another.
#include "common.cuh"

// Entry d of row i is at bases[ids[i]] + offsets[d], or at i D + offsets[d] without bases; missing ones become zero.
extern "C" __global__ void gather_rows(const real* values, const unsigned char* observed, const int64* ids,
                                       const int64* bases, const int* offsets, int64 n_rows, int D, real* dense,
                                       real* shown) {
  const int64 n = n_rows * D;
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<int64>(gridDim.x) * blockDim.x) {
    const int64 row = i / D;
    const int64 at = (bases ? bases[ids[row]] : row * D) + offsets[i % D];
    const bool o = observed == nullptr || observed[at];
    if (dense) dense[i] = o ? values[at] : 0;
    if (shown) shown[i] = o ? 1 : 0;
  }
}

// How many entries of each row of a source are observed.
extern "C" __global__ void count_observed(const unsigned char* observed, const int64* bases, const int* offsets,
                                          int64 n_rows, int D, int* counts) {
  const int64 row = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= n_rows) return;
  int count = 0;
  for (int d = 0; d < D; ++d) count += observed[bases[row] + offsets[d]] != 0;
  counts[row] = count;
}
