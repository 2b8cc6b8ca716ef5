// The average of what all groups say of every entry, summed in a fixed order: the members are sorted by where they
// begin, and every entry collects what the members that contain it say of it.
#include "common.cuh"

// A number for each member that sorts by where the member begins, and then by its own number. Members that do not exist
// come last.
extern "C" __global__ void member_keys(const int64* first, int64 n, int64 size, int64* keys) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) keys[i] = (first[i] < 0 ? size : first[i]) * n + i;
}

// The place of each member in that order.
extern "C" __global__ void member_slots(const int64* keys, int64 n, int* slots) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) slots[keys[i] % n] = static_cast<int>(i);
}

// The first slot of the members that begin at lowest + i, for i = 0 to n_starts; those of i end where those of i + 1
// begin.
extern "C" __global__ void first_slots(const int64* keys, int64 n, int64 lowest, int64 n_starts, int* begins) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i > n_starts) return;
  int64 low = 0, high = n;
  while (low < high) {
    const int64 middle = (low + high) / 2;
    if (keys[middle] < (lowest + i) * n)
      low = middle + 1;
    else
      high = middle;
  }
  begins[i] = static_cast<int>(low);
}

// Adds what the members say of each of the entries lowest to lowest + n_entries - 1.
extern "C" __global__ void __launch_bounds__(256)
    add_terms(const float4* terms, const int* begins, const int64* offsets, int D, int64 lowest, int64 n_starts,
              int64 n_entries, int64 size, float* sums) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n_entries) return;
  float4 sum = make_float4(0, 0, 0, 0);
  for (int d = 0; d < D; ++d) {
    const int64 start = i - offsets[d];
    if (start < 0 || start >= n_starts) continue;
    const int end = begins[start + 1];
    for (int slot = begins[start]; slot < end; ++slot) {
      const float4 term = terms[static_cast<int64>(slot) * D + d];
      sum.x += term.x;
      sum.y += term.y;
      sum.z += term.z;
      sum.w += term.w;
    }
  }
  float* const at = sums + lowest + i;
  at[0] += sum.x;
  at[size] += sum.y;
  at[2 * size] += sum.z;
  at[3 * size] += sum.w;
}

// Adds the residuals of all groups: the sum of each of n_columns columns of n rows. One block serves one column.
extern "C" __global__ void __launch_bounds__(256) add_residuals(const float* residuals, int64 n, double* sums) {
  __shared__ double partial[256];
  double sum = 0;
  for (int64 i = threadIdx.x; i < n; i += 256) sum += residuals[i * gridDim.x + blockIdx.x];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] += partial[0];
}
