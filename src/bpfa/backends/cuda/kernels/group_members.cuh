// The members of one group given its covariance: Gaussian conditionals (docs/math.md section 19). A warp completes one
// member at a time.
#pragma once
#include "group_model.cuh"

// Pairs of columns that belong to each lane.
constexpr int LANE_PAIRS = (PADDED + 63) / 64;

// Where what groups say of their members is stored; null pointers for what is not wanted.
struct Output {
  const int* slots;        // where the terms of a member are stored
  float4* terms;           // D for each slot: weight, and weight times shift, its square, and variance
  int n_kept;              // of how many members of a group the mean and the variance are wanted
  float *mean, *variance;  // D for each of these
};

// A member of which less than half is observed is completed from what is observed, another one by way of what is
// missing.
__device__ __forceinline__ bool has_few(const Group& group, int n) { return 2 * group.n_observed()[n] < D; }

// Lists the columns of a member that are observed (or missing) in ascending order.
__device__ __forceinline__ void list_columns(const Group& group, int n, bool observed, int* columns, int lane) {
  int count = 0;
#pragma unroll
  for (int w = 0; w < WORDS; ++w) {
    unsigned bits = group.observed()[n * WORDS + w];
    if (!observed) bits = ~bits;
    if (32 * (w + 1) > D) bits &= (1u << (D % 32)) - 1;
    if (bits >> lane & 1) columns[count + __popc(bits & ((1u << lane) - 1))] = 32 * w + lane;
    count += __popc(bits);
  }
  __syncwarp();
}

// With `Few`, C = S - B^T B, where B = L^-1 S_O: and L L^T = S_OO + noise. Otherwise, `matrix` is K = (S + noise)^-1, V
// are the missing columns, and C = noise - noise K noise + B^T B, where B = L^-1 (I_V: - K_V: noise) and L L^T = K_VV.
// The row z that is appended to the factor is L^-1 (y - mean)_O, or L^-1 (K (y - mean))_V. `mean` and `variance` of the
// lane's pairs of columns are those without B, and are completed; B is stored at `rows`.
template <bool Few>
__device__ __forceinline__ void condition(const Group& group, int count, float* rows, float2 (&mean)[LANE_PAIRS],
                                          float2 (&variance)[LANE_PAIRS], int warp, int lane) {
  const float *const matrix = group.S(), *const noise = group.noise(), *const vector = group.vector(warp);
  const int* const columns = group.columns(warp);
  float *const L = group.factor(warp), *const inverse = group.inverses(warp);
  for (int t = lane; t < packed(count); t += 32) {
    const int2 place = tile_place(t);
    const int row = columns[place.y], column = columns[place.x];
    L[t] = matrix[row * LD + column] + (Few && row == column ? noise[row] : 0.0f);
  }
  for (int j = lane; j < count; j += 32) L[packed(count) + j] = vector[columns[j]];
  __syncwarp();
  warp_cholesky(L, count, count + 1, inverse, Few ? group.round.smallest_pivot : 1e-12f, lane);
  const float* const z = L + packed(count);
#pragma unroll
  for (int e = 0; e < LANE_PAIRS; ++e) {
    const int d = 2 * lane + 64 * e;
    if (d >= PADDED) continue;
    const float2 scale = *reinterpret_cast<const float2*>(noise + d);
    float2 m = make_float2(0, 0), v = make_float2(0, 0);
    // Four rows of B at a time, so that each of the rows before them is read once for all four.
    for (int begin = 0; begin < count; begin += 4) {
      float2 b[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const int column = columns[min(begin + t, count - 1)];
        b[t] = *reinterpret_cast<const float2*>(matrix + column * LD + d);
        if (!Few) b[t] = make_float2((d == column) - b[t].x * scale.x, (d + 1 == column) - b[t].y * scale.y);
      }
      const float* row[4];
#pragma unroll
      for (int t = 0; t < 4; ++t) row[t] = L + packed(min(begin + t, count));
#pragma unroll 4
      for (int j = 0; j < begin; ++j) {
        const float2 before = *reinterpret_cast<const float2*>(rows + j * LD + d);
#pragma unroll
        for (int t = 0; t < 4; ++t) {
          b[t].x -= row[t][j] * before.x;
          b[t].y -= row[t][j] * before.y;
        }
      }
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const int i = begin + t;
        if (i >= count) break;
#pragma unroll
        for (int u = 0; u < t; ++u) {
          b[t].x -= row[t][begin + u] * b[u].x;
          b[t].y -= row[t][begin + u] * b[u].y;
        }
        b[t].x *= inverse[i];
        b[t].y *= inverse[i];
        *reinterpret_cast<float2*>(rows + i * LD + d) = b[t];
        m.x += z[i] * b[t].x;
        m.y += z[i] * b[t].y;
        v.x += b[t].x * b[t].x;
        v.y += b[t].y * b[t].y;
      }
    }
    mean[e].x += Few ? m.x : -m.x;
    mean[e].y += Few ? m.y : -m.y;
    variance[e].x -= Few ? v.x : -v.x;
    variance[e].y -= Few ? v.y : -v.y;
  }
}

// Completes a member. The row X_n is stored in the group's X and, in the last iteration, the variances in the vector of
// the warp; `rows` are filled with B.
template <bool Few>
__device__ __forceinline__ void complete_member(const Group& group, int n, int count, float* rows, int warp, int lane) {
  const Round& round = group.round;
  float *const vector = group.vector(warp), *const X = group.X() + n * LD;
  const float *const noise = group.noise(), *const center = group.mean(), *const K = group.S();
  for (int d = lane; d < PADDED; d += 32)
    vector[d] = d < D && group.is_observed(n, d) ? round.seen[group.first[n] + round.offsets[d]] - center[d] : 0.0f;
  __syncwarp();
  float2 mean[LANE_PAIRS], variance[LANE_PAIRS], projected[LANE_PAIRS];
#pragma unroll
  for (int e = 0; e < LANE_PAIRS; ++e) {
    const int d = 2 * lane + 64 * e;
    mean[e] = variance[e] = projected[e] = make_float2(0, 0);
    if (d >= PADDED) continue;
    mean[e] = *reinterpret_cast<const float2*>(center + d);
    variance[e] = *reinterpret_cast<const float2*>(group.diagonal() + d);
    if (Few) continue;
    const float2 own = *reinterpret_cast<const float2*>(vector + d);
    const float2 scale = *reinterpret_cast<const float2*>(noise + d);
    float2 g = make_float2(0, 0);
#pragma unroll 4
    for (int i = 0; i < D; ++i) {
      const float2 k = *reinterpret_cast<const float2*>(K + i * LD + d);
      g.x += vector[i] * k.x;
      g.y += vector[i] * k.y;
    }
    projected[e] = g;
    mean[e].x += own.x - scale.x * g.x;
    mean[e].y += own.y - scale.y * g.y;
    variance[e].x = d < D ? scale.x - scale.x * scale.x * K[d * LD + d] : 0;
    variance[e].y = d + 1 < D ? scale.y - scale.y * scale.y * K[(d + 1) * LD + d + 1] : 0;
  }
  if (!Few) {
    __syncwarp();
#pragma unroll
    for (int e = 0; e < LANE_PAIRS; ++e)
      if (2 * lane + 64 * e < PADDED) *reinterpret_cast<float2*>(vector + 2 * lane + 64 * e) = projected[e];
    __syncwarp();
  }
  if (count > 0) {
    list_columns(group, n, Few, group.columns(warp), lane);
    condition<Few>(group, count, rows, mean, variance, warp, lane);
  }
  __syncwarp();
#pragma unroll
  for (int e = 0; e < LANE_PAIRS; ++e) {
    const int d = 2 * lane + 64 * e;
    if (d >= PADDED) continue;
    *reinterpret_cast<float2*>(X + d) = mean[e];
    *reinterpret_cast<float2*>(vector + d) = variance[e];
  }
  __syncwarp();
}

// Stores what the group says of a member, with what is not known of the group's mean and features.
__device__ __forceinline__ void report_member(const Group& group, const Output& output, int64 number, int n_members,
                                              int n, int warp, int lane) {
  const Round& round = group.round;
  float *const vector = group.vector(warp), *const X = group.X() + n * LD;
  float freedom = 0;
  for (int d = lane; d < D; d += 32) {
    const bool observed = group.is_observed(n, d);
    const float noise = group.noise()[d];
    float v = fmaxf(vector[d], 0.0f);
    if (observed) v = fminf(v, noise);
    vector[d] = v;
    freedom += observed ? v / noise : 0.0f;
  }
  freedom = 1 + lane_sum<32>(freedom);
  // Squared residuals and their expectation, summed over the members of this warp.
  float *const squares = group.covariance() + 2 * warp * LD, *const expected = squares + LD;
  for (int d = lane; d < D; d += 32) {
    const bool observed = group.is_observed(n, d);
    const float noise = group.noise()[d], v = vector[d], x = X[d], n_seen = group.n_seen()[d];
    const float left = observed ? 1 - v / noise : 1.0f;  // of an error in what the others predict
    const float spread = observed ? noise / fmaxf(left, 1e-6f) : noise + v;
    const float unknown = left * left / (n_seen / (spread * freedom) + 1 / group.diagonal()[d]);
    const int64 at = group.first[n] + round.offsets[d];
    if (observed) {
      const float residual = round.seen[at] - x;
      squares[d] += residual * residual;
      expected[d] += left * (1 - freedom / (n_seen + freedom));
    }
    if (output.terms) {
      const float weight = 1 / (v + round.weight_share * noise), shift = x - round.current[at];
      output.terms[static_cast<int64>(output.slots[number * n_members + n]) * D + d] =
          make_float4(weight, weight * shift, weight * shift * shift, weight * (v + unknown));
    }
    if (n < output.n_kept) {
      const int64 to = (number * output.n_kept + n) * D + d;
      output.mean[to] = x;
      output.variance[to] = v + unknown;
    }
  }
  __syncwarp();
}

// Completes all members of which few (or many) columns are observed, some of them at a time, and adds the squares of
// their rows B to the covariance; in the last iteration they are reported instead.
template <bool Few>
__device__ __forceinline__ void complete_members(const Group& group, bool last, const Output& output, int64 number,
                                                 int n_members) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* const rows = group.features() + max(group.rank, 0) * LD;
  const int capacity = FEATURE_ROWS - max(group.rank, 0);
  int next = 0;
  while (next < group.M) {
    int mine = -1, begin = 0, my_count = 0, n_rows = 0, taken = 0;
    for (; next < group.M && taken < WARPS; ++next) {
      if (has_few(group, next) != Few) continue;
      const int count = Few ? group.n_observed()[next] : D - group.n_observed()[next];
      if (n_rows + count > capacity) break;
      if (taken == warp) mine = next, begin = n_rows, my_count = count;
      n_rows += count;
      ++taken;
    }
    if (mine >= 0) {
      complete_member<Few>(group, mine, my_count, rows + begin * LD, warp, lane);
      if (last) report_member(group, output, number, n_members, mine, warp, lane);
    }
    __syncthreads();
    if (!last && n_rows > 0) {
      add_square(group.covariance(), rows, n_rows, Few ? -1.0f : 1.0f);
      __syncthreads();
    }
  }
}

// The E-step: completes every row, and leaves in the upper tiles of `covariance` the sum of what is unknown of them.
__device__ __forceinline__ void complete(const Group& group, bool last, const Output& output, int64 number,
                                         int n_members) {
  float *const covariance = group.covariance(), *const S = group.S();
  const float* const noise = group.noise();
  int few = 0;
  for (int n = threadIdx.x % 32; n < group.M; n += 32) few += has_few(group, n);
  const float n_few = static_cast<float>(lane_sum<32>(few)), n_many = group.M - n_few;
  for (int d = threadIdx.x; d < D; d += THREADS) group.diagonal()[d] = S[d * LD + d];
  for (int i = threadIdx.x; i < COVARIANCE_ROWS * LD; i += THREADS) covariance[i] = 0;
  __syncthreads();
  if (n_few > 0) {
    complete_members<true>(group, last, output, number, n_members);
    if (!last)
      for (int i = threadIdx.x; i < D * PADDED; i += THREADS)
        covariance[i / PADDED * LD + i % PADDED] += n_few * S[i / PADDED * LD + i % PADDED];
    __syncthreads();
  }
  if (n_many == 0) return;
  invert(S, noise, group.pivots(), group.round.smallest_pivot);
  complete_members<false>(group, last, output, number, n_members);
  if (last) return;
  for (int i = threadIdx.x; i < D * D; i += THREADS) {
    const int row = i / D, column = i % D;
    covariance[row * LD + column] +=
        n_many * ((row == column ? noise[row] : 0.0f) - noise[row] * noise[column] * S[row * LD + column]);
  }
  __syncthreads();
}
