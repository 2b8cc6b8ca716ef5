// The patches of a picture that are most like a reference patch. One block of threads serves one reference.
#include "common.cuh"

#define SEARCH_THREADS 256
#define OUTSIDE 0xffffffffu

struct Window {
  int n_slices, height, width, n_channels, patch_height, patch_width, reach, slice_reach;
};

struct Place {
  int z, y, x;
};

// How far candidate c is from the reference; candidates are counted along x, then y, then slices.
__device__ inline Place shift_of(const Window& window, int c) {
  const int side = 2 * window.reach + 1;
  return {c / (side * side) - window.slice_reach, c / side % side - window.reach, c % side - window.reach};
}

// The sum of a number over the block, for every thread; `partial` has room for two numbers of each warp, of which
// successive calls use one in turn.
__device__ inline int block_sum(int x, int* partial, int turn) {
  constexpr int N = SEARCH_THREADS / 32;
  x = lane_sum<32>(x);
  int* const sums = partial + turn % 2 * N;
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  int total = 0;
#pragma unroll
  for (int w = 0; w < N; ++w) total += sums[w];
  return total;
}

// The bits of each candidate's difference from the reference. Differences are not negative, so that their bits are in
// the order of their values.
__device__ inline void score(const float* values, const Window& window, Place reference, float distance_weight,
                             int n_candidates, const float* patch, unsigned* scores) {
  const int run = window.patch_width * window.n_channels, line = window.width * window.n_channels;
  const float scale = 1.0f / (window.patch_height * run);
  for (int c = threadIdx.x; c < n_candidates; c += SEARCH_THREADS) {
    const Place shift = shift_of(window, c);
    const int z = reference.z + shift.z, y = reference.y + shift.y, x = reference.x + shift.x;
    scores[c] = OUTSIDE;
    if (z < 0 || z >= window.n_slices || y < 0 || y + window.patch_height > window.height || x < 0 ||
        x + window.patch_width > window.width)
      continue;
    const float* const there =
        values + ((static_cast<int64>(z) * window.height + y) * window.width + x) * window.n_channels;
    float sum = 0;
    for (int i = 0; i < window.patch_height; ++i)
#pragma unroll 4
      for (int j = 0; j < run; ++j) {
        const float difference = patch[i * run + j] - __ldg(there + static_cast<int64>(i) * line + j);
        sum += difference * difference;
      }
    const int apart = shift.z * shift.z + shift.y * shift.y + shift.x * shift.x;
    // The reference itself, at distance 0, comes first even if another patch is equal to it.
    const float found = apart == 0 ? 0.0f : sum * scale + distance_weight * apart + 1.17549435e-38f;
    scores[c] = __float_as_uint(found);
  }
  __syncthreads();
}

// The n-th smallest score and, of the candidates that have exactly this score, the last one that is among the n first.
__device__ inline uint2 last_chosen(const unsigned* scores, int n_candidates, int n, int* partial) {
  int turn = 0;
  unsigned value = 0;
  for (int bit = 30; bit >= 0; --bit) {
    const unsigned trial = value | 1u << bit;
    int count = 0;
    for (int c = threadIdx.x; c < n_candidates; c += SEARCH_THREADS) count += scores[c] < trial;
    if (block_sum(count, partial, turn++) < n) value = trial;
  }
  int less = 0;
  for (int c = threadIdx.x; c < n_candidates; c += SEARCH_THREADS) less += scores[c] < value;
  const int wanted = n - block_sum(less, partial, turn++);
  unsigned index = 0;
  for (int bit = 31 - __clz(n_candidates); bit >= 0; --bit) {
    const unsigned trial = index | 1u << bit;
    int count = 0;
    for (int c = threadIdx.x; c < n_candidates; c += SEARCH_THREADS)
      count += scores[c] == value && static_cast<unsigned>(c) < trial;
    if (block_sum(count, partial, turn++) < wanted) index = trial;
  }
  __syncthreads();
  return make_uint2(value, index);
}

// Fills in where the members of each group begin in the flattened picture, the nearest first; -1 where there are not
// enough candidates. Reference r of row i is in slice slices[i] and begins at y[i], x[r].
extern "C" __global__ void __launch_bounds__(SEARCH_THREADS)
    find_members(const float* values, int n_slices, int height, int width, int n_channels, const int* slices,
                 const int* y, const int* x, int n_x, int patch_height, int patch_width, int reach, int slice_reach,
                 double distance_weight, int n_members, int64* first) {
  extern __shared__ unsigned long long keys[];
  __shared__ int partial[2 * (SEARCH_THREADS / 32)], n_found;
  const Window window = {n_slices, height, width, n_channels, patch_height, patch_width, reach, slice_reach};
  const int n_candidates = (2 * slice_reach + 1) * (2 * reach + 1) * (2 * reach + 1);
  const int n_numbers = patch_height * patch_width * n_channels, run = patch_width * n_channels;
  float* const patch = reinterpret_cast<float*>(keys + n_members);
  unsigned* const scores = reinterpret_cast<unsigned*>(patch + n_numbers);
  const Place reference = {slices[blockIdx.x / n_x], y[blockIdx.x / n_x], x[blockIdx.x % n_x]};
  const int64 begin = ((static_cast<int64>(reference.z) * height + reference.y) * width + reference.x) * n_channels;
  for (int i = threadIdx.x; i < n_numbers; i += SEARCH_THREADS)
    patch[i] = values[begin + static_cast<int64>(i / run) * width * n_channels + i % run];
  if (threadIdx.x == 0) n_found = 0;
  __syncthreads();
  score(values, window, reference, static_cast<float>(distance_weight), n_candidates, patch, scores);
  int inside = 0;
  for (int c = threadIdx.x; c < n_candidates; c += SEARCH_THREADS) inside += scores[c] != OUTSIDE;
  const int n = min(n_members, block_sum(inside, partial, 1));
  const uint2 last = last_chosen(scores, n_candidates, n, partial);
  for (int c = threadIdx.x; c < n_candidates; c += SEARCH_THREADS)
    if (scores[c] < last.x || (scores[c] == last.x && static_cast<unsigned>(c) <= last.y))
      keys[atomicAdd(&n_found, 1)] = static_cast<unsigned long long>(scores[c]) << 32 | c;
  __syncthreads();
  int64* const result = first + static_cast<int64>(blockIdx.x) * n_members;
  for (int m = threadIdx.x; m < n_members; m += SEARCH_THREADS) {
    if (m >= n) {
      result[m] = -1;
      continue;
    }
    int place = 0;
    for (int i = 0; i < n; ++i) place += keys[i] < keys[m];
    const Place shift = shift_of(window, static_cast<int>(keys[m] & 0xffffffffu));
    result[place] = begin + ((static_cast<int64>(shift.z) * height + shift.y) * width + shift.x) * n_channels;
  }
}
