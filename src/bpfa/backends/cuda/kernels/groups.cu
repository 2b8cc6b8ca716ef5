// Factor models of groups of like rows, fitted by EM: docs/math.md section 19. One block of threads fits one group.
#include "group_members.cuh"

// Gathers the rows of a group as they are completed at present, and which of their entries are observed.
__device__ __forceinline__ void gather(const Group& group) {
  const Round& round = group.round;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int n = warp; n < group.M; n += WARPS) {
    int count = 0;
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
      const int d = 32 * w + lane;
      const int64 at = group.first[n] + (d < D ? round.offsets[d] : 0);
      const unsigned bits = __ballot_sync(EVERY_LANE, d < D && round.observed[at]);
      if (d < PADDED) group.X()[n * LD + d] = d < D ? round.current[at] : 0.0f;
      if (lane == 0) group.observed()[n * WORDS + w] = bits;
      count += __popc(bits);
    }
    if (lane == 0) group.n_observed()[n] = count;
  }
  for (int d = threadIdx.x; d < LD; d += THREADS) {
    group.noise()[d] = d < D ? round.noise[d] : 0.0f;
    group.diagonal()[d] = 0;
  }
  for (int i = threadIdx.x; i < D * LD; i += THREADS) group.covariance()[i] = 0;
  __syncthreads();
  for (int d = threadIdx.x; d < D; d += THREADS) {
    int count = 0;
    for (int n = 0; n < group.M; ++n) count += group.is_observed(n, d);
    group.n_seen()[d] = static_cast<float>(count);
  }
  __syncthreads();
}

// Fits all groups. `first` has n_members numbers for each, -1 after the last member. `residuals` are, for each group
// and column, the squared residuals of the observed entries and what is expected of them in units of the noise.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    fit_groups(const float* current, const float* seen, const unsigned char* observed, const int64* offsets,
               const int64* first, int64 n_groups, int n_members, const float* noise, const double* log_prior,
               const float* prior, double prior_rows, double floor, double weight_share, double smallest_pivot,
               int n_iterations, const int* slots, float4* terms, int n_kept, float* mean, float* variance, int* ranks,
               float* residuals, float* scratch, int64 scratch_size) {
#if SCRATCH
  float* const memory = scratch + blockIdx.x * scratch_size;
#else
  extern __shared__ float4 shared_memory[];
  float* const memory = reinterpret_cast<float*>(shared_memory);
#endif
  const Round round = {current,
                       seen,
                       observed,
                       offsets,
                       noise,
                       log_prior,
                       prior,
                       static_cast<float>(prior_rows),
                       static_cast<float>(floor),
                       static_cast<float>(weight_share),
                       static_cast<float>(smallest_pivot),
                       n_iterations};
  const Output output = {slots, terms, n_kept, mean, variance};
  for (int64 number = blockIdx.x; number < n_groups; number += gridDim.x) {
    const int64* const members = first + number * n_members;
    int M = 0;
    for (int begin = 0; begin < n_members; begin += THREADS)
      M += __syncthreads_count(begin + threadIdx.x < n_members && members[begin + threadIdx.x] >= 0);
    Group group = {memory, round, members, M, -1};
    gather(group);
    for (int iteration = 0; iteration < n_iterations; ++iteration) {
      moments(group);
      model(group, iteration);
      complete(group, iteration + 1 == n_iterations, output, number, n_members);
    }
    for (int i = threadIdx.x; i < 2 * D; i += THREADS) {
      float sum = 0;
      for (int w = 0; w < WARPS; ++w) sum += group.covariance()[(2 * w + i / D) * LD + i % D];
      residuals[number * 2 * D + i] = sum;
    }
    if (threadIdx.x == 0) ranks[number] = group.rank;
    __syncthreads();
  }
}
