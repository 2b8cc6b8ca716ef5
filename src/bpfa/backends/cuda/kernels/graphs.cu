// Copies around the replay of a graph of kernels. The kernels of a graph always read and write the same memory, so
// their input is copied there before the replay, and their output is copied from there afterwards.
#include "common.cuh"

__device__ inline void copy(int64 n, const int64* from, int64* to) {
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += static_cast<int64>(gridDim.x) * blockDim.x)
    to[i] = from[i];
}

// Copies the four arrays of a posterior, in words of eight bytes. Before a replay it also copies the ids of the rows
// and stores the number and the size of the step; afterwards `stored` is null and n_ids is zero.
extern "C" __global__ void copy_step(int64 n_ab, const int64* ab, int64* to_ab, int64 n_state, const int64* state,
                                     int64* to_state, int64 n_precision, const int64* precision, int64* to_precision,
                                     int64 n_linear, const int64* linear, int64* to_linear, int64 n_ids,
                                     const int64* ids, int64* to_ids, double rho, unsigned step, StepOnDevice* stored) {
  copy(n_ab, ab, to_ab);
  copy(n_state, state, to_state);
  copy(n_precision, precision, to_precision);
  copy(n_linear, linear, to_linear);
  copy(n_ids, ids, to_ids);
  if (stored && blockIdx.x == 0 && threadIdx.x == 0) *stored = {rho, step};
}
