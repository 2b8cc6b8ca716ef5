// Eigenvalues and leading eigenvectors of a symmetric, positive semidefinite matrix by the threads of a block: the
// matrix is made tridiagonal by reflections, all eigenvalues are found by bisection, and those eigenvectors that are
// wanted by inverse iteration.
#pragma once
#include "group_linear.cuh"

// Eight lanes work on one row, each on groups of four columns, or on one eigenvector.
constexpr int ROW_GROUP = 8, ROW_GROUPS = THREADS / ROW_GROUP;
constexpr int OWN_ROWS = (D + ROW_GROUPS - 1) / ROW_GROUPS, QUADS = (TILES + ROW_GROUP - 1) / ROW_GROUP;
// Bisection divides an interval into five parts, by four lanes. Twelve times are enough for single precision.
constexpr int PARTS_LANES = 4, BISECTIONS = 12;
// How many eigenvectors are found at a time, as many as there is room for.
constexpr int ROOM = (D * LD + WARPS * FACTOR_SIZE) / (6 * D), VECTORS = ROOM < 32 ? ROOM : 32;

__device__ __forceinline__ float group_sum(float x) {
#pragma unroll
  for (int offset = ROW_GROUP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(EVERY_LANE, x, offset);
  return x;
}

__device__ __forceinline__ float dot4(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// Element `column` of the vector of reflection k, given what row k was when it was reflected.
__device__ __forceinline__ float reflection(float x, int column, int k, float alpha) {
  return column <= k ? 0.0f : column == k + 1 ? x - alpha : x;
}

// Four elements of this vector.
__device__ __forceinline__ float4 reflection4(const float* row, int quad, int k, float alpha) {
  if (quad >= TILES) return make_float4(0, 0, 0, 0);
  const float4 x = load4(row + 4 * quad);
  return make_float4(reflection(x.x, 4 * quad, k, alpha), reflection(x.y, 4 * quad + 1, k, alpha),
                     reflection(x.z, 4 * quad + 2, k, alpha), reflection(x.w, 4 * quad + 3, k, alpha));
}

// The reflection of a row v: alpha, the number next to the diagonal that is left of it, and the factor s of the
// reflection I - s v v^T. A row that consists of rounding errors is not reflected.
__device__ __forceinline__ float2 reflection_of(float first, float square, float negligible) {
  if (square <= negligible) return make_float2(first, 0.0f);
  const float alpha = copysignf(sqrtf(square), -first);
  return make_float2(alpha, 1 / (square - first * alpha));
}

// Reduces the symmetric matrix A to a tridiagonal one, T = Q^T A Q. Row k of A is left as it was when it was reflected.
// `diagonal` gets the diagonal of T, `beside` the numbers next to it, and `scales` the factors of the reflections. The
// matrix is held in registers; `product` has room for a row.
__device__ __forceinline__ void tridiagonalise(float* A, float trace, float* diagonal, float* beside, float* scales,
                                               float* product) {
  const int lane = threadIdx.x % ROW_GROUP, group = threadIdx.x / ROW_GROUP;
  float4 own[OWN_ROWS][QUADS];
#pragma unroll
  for (int s = 0; s < OWN_ROWS; ++s)
#pragma unroll
    for (int e = 0; e < QUADS; ++e) {
      const int i = group + s * ROW_GROUPS, quad = lane + e * ROW_GROUP;
      own[s][e] = i < D && quad < TILES ? load4(A + i * LD + 4 * quad) : make_float4(0, 0, 0, 0);
    }
  for (int d = threadIdx.x; d < LD; d += THREADS) product[d] = 0;
  __syncthreads();
  for (int k = 0; k + 2 < D; ++k) {
    const float* const row = A + k * LD;
    float4 v[QUADS];
    float square = 0;
#pragma unroll
    for (int e = 0; e < QUADS; ++e) {
      v[e] = reflection4(row, lane + e * ROW_GROUP, k, 0.0f);
      square += dot4(v[e], v[e]);
    }
    const float2 kind = reflection_of(row[k + 1], group_sum(square), 1e-20f * trace * trace);
#pragma unroll
    for (int e = 0; e < QUADS; ++e) v[e] = reflection4(row, lane + e * ROW_GROUP, k, kind.x);
    if (threadIdx.x == 0) diagonal[k] = row[k], beside[k] = kind.x, scales[k] = kind.y;
    // p = scale A v.
#pragma unroll
    for (int s = 0; s < OWN_ROWS; ++s) {
      const int i = group + s * ROW_GROUPS;
      float sum = 0;
#pragma unroll
      for (int e = 0; e < QUADS; ++e) sum += dot4(own[s][e], v[e]);
      sum = group_sum(sum);
      if (lane == 0 && i < D) product[i] = i > k ? kind.y * sum : 0.0f;
    }
    __syncthreads();
    // w = p - scale (p v) / 2 v, and A - v w^T - w v^T.
    float4 w[QUADS];
    float overlap = 0;
#pragma unroll
    for (int e = 0; e < QUADS; ++e) {
      const int quad = lane + e * ROW_GROUP;
      w[e] = quad < TILES ? load4(product + 4 * quad) : make_float4(0, 0, 0, 0);
      overlap += dot4(w[e], v[e]);
    }
    overlap = 0.5f * kind.y * group_sum(overlap);
#pragma unroll
    for (int e = 0; e < QUADS; ++e) {
      w[e].x -= overlap * v[e].x;
      w[e].y -= overlap * v[e].y;
      w[e].z -= overlap * v[e].z;
      w[e].w -= overlap * v[e].w;
    }
#pragma unroll
    for (int s = 0; s < OWN_ROWS; ++s) {
      const int i = group + s * ROW_GROUPS;
      if (i <= k || i >= D) continue;
      const float v_i = reflection(row[i], i, k, kind.x), w_i = product[i] - overlap * v_i;
#pragma unroll
      for (int e = 0; e < QUADS; ++e) {
        const int quad = lane + e * ROW_GROUP;
        own[s][e].x -= v_i * w[e].x + w_i * v[e].x;
        own[s][e].y -= v_i * w[e].y + w_i * v[e].y;
        own[s][e].z -= v_i * w[e].z + w_i * v[e].z;
        own[s][e].w -= v_i * w[e].w + w_i * v[e].w;
        if ((i == k + 1 || k + 3 == D) && quad < TILES) store4(A + i * LD + 4 * quad, own[s][e]);
      }
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    constexpr int k = D > 1 ? D - 2 : 0;
    diagonal[k] = A[k * LD + k];
    beside[k] = A[k * LD + D - 1];
    diagonal[D - 1] = A[(D - 1) * LD + D - 1];
    beside[D - 1] = 0;
  }
  __syncthreads();
}

// The eigenvalues of the tridiagonal matrix in descending order, plus `floor`. `pairs` has room for D pairs: the
// diagonal, and the square of the number beside it.
__device__ __forceinline__ void bisect(const float* diagonal, const float* beside, float2* pairs, float trace,
                                       double* values, float floor) {
  // A square that is not zero makes the count right after a pivot that is zero.
  for (int i = threadIdx.x; i < D; i += THREADS)
    pairs[i] = make_float2(diagonal[i], i > 0 ? beside[i - 1] * beside[i - 1] + 1e-30f : 0.0f);
  __syncthreads();
  const int part = threadIdx.x % PARTS_LANES, shift = threadIdx.x % 32 / PARTS_LANES * PARTS_LANES;
  for (int begin = 0; begin < D; begin += THREADS / PARTS_LANES) {
    const int j = begin + threadIdx.x / PARTS_LANES;
    float low = -1e-6f * trace, width = 1.00001f * trace - low + 1e-30f;
    for (int step = 0; step < BISECTIONS; ++step) {
      width /= PARTS_LANES + 1;
      const float x = low + (part + 1) * width;
      float pivot = 1;
      int below = 0;
#pragma unroll 4
      for (int i = 0; i < D; ++i) {
        pivot = pairs[i].x - x - pairs[i].y / pivot;
        below += pivot < 0;
      }
      // Eigenvalue j, counted from the largest, is the one that D - 1 - j are below.
      const unsigned found = __ballot_sync(EVERY_LANE, below <= D - 1 - j);
      low += width * __popc(found >> shift & ((1u << PARTS_LANES) - 1));
    }
    if (j < D && part == 0) values[j] = static_cast<double>(fmaxf(low + 0.5f * width, 0.0f)) + floor;
  }
  __syncthreads();
}

// One number for each row of an eigenvector, or of the triangular factors that it is found by.
struct Column {
  float* first;
  __device__ float& operator[](int i) const { return first[i * VECTORS]; }
};

// Eigenvector number k of the tridiagonal matrix, up to its length, by inverse iteration: (T - lambda) x = b is solved
// twice, from a random start. One thread; `factors` has room for six numbers of each row.
__device__ __forceinline__ void inverse_iteration(const float2* pairs, const float* beside, float lambda, float tiny,
                                                  int k, float* factors) {
  const Column x = {factors}, inverse = {factors + D * VECTORS}, next = {factors + 2 * D * VECTORS},
               after = {factors + 3 * D * VECTORS}, multiplier = {factors + 4 * D * VECTORS},
               swapped = {factors + 5 * D * VECTORS};
  // Gaussian elimination with exchanges of neighbouring rows.
  float pivot = pairs[0].x - lambda, right = beside[0];
  for (int i = 0; i + 1 < D; ++i) {
    const float below = beside[i], diagonal = pairs[i + 1].x - lambda, far = beside[i + 1];
    const bool swap = fabsf(pivot) < fabsf(below);
    if (!swap && fabsf(pivot) < tiny) pivot = tiny;
    const float reciprocal = 1 / (swap ? below : pivot), factor = (swap ? pivot : below) * reciprocal;
    inverse[i] = reciprocal;
    next[i] = swap ? diagonal : right;
    after[i] = swap ? far : 0.0f;
    multiplier[i] = factor;
    swapped[i] = swap;
    pivot = swap ? right - factor * diagonal : diagonal - factor * right;
    right = swap ? -factor * far : far;
  }
  inverse[D - 1] = 1 / (fabsf(pivot) < tiny ? tiny : pivot);
  for (int i = 0; i < D; ++i) x[i] = 0.5f + ((i * 37 + k * 101 + 11) * 2654435761u >> 16 & 0xffff) * 0x1p-16f;
  for (int repeat = 0; repeat < 2; ++repeat) {
    float carried = x[0];
    for (int i = 0; i + 1 < D; ++i) {
      const float here = x[i + 1], factor = multiplier[i];
      const bool swap = swapped[i] != 0;
      x[i] = swap ? here : carried;
      carried = swap ? carried - factor * here : here - factor * carried;
    }
    float one = carried * inverse[D - 1], two = 0, largest = fabsf(one);
    x[D - 1] = one;
    for (int i = D - 2; i >= 0; --i) {
      const float found = (x[i] - next[i] * one - after[i] * two) * inverse[i];
      two = one;
      one = x[i] = found;
      largest = fmaxf(largest, fabsf(found));
    }
    const float scale = 1 / largest;
    for (int i = 0; i < D; ++i) x[i] *= scale;
  }
}

// The n leading eigenvectors of the matrix that `tridiagonalise` has reduced, as rows of length 1 that are not quite
// orthogonal if eigenvalues are nearly equal. `factors` has room for 6 D VECTORS numbers.
__device__ __forceinline__ void leading_vectors(const float* A, const float2* pairs, const float* beside,
                                                const float* scales, const double* values, float floor, float trace,
                                                int n, float* factors, float* vectors) {
  const int lane = threadIdx.x % ROW_GROUP;
  for (int begin = 0; begin < n; begin += VECTORS) {
    if (threadIdx.x < VECTORS && begin + threadIdx.x < n)
      inverse_iteration(pairs, beside, static_cast<float>(values[begin + threadIdx.x] - floor), 1e-8f * trace + 1e-30f,
                        begin + threadIdx.x, factors + threadIdx.x);
    __syncthreads();
    // Back to the matrix itself: the reflections in reverse order.
    for (int first = 0; first < VECTORS && begin + first < n; first += ROW_GROUPS) {
      const int m = first + threadIdx.x / ROW_GROUP, k = begin + m;
      const bool active = m < VECTORS && k < n;
      float4 x[QUADS];
#pragma unroll
      for (int e = 0; e < QUADS; ++e) {
        const int d = 4 * (lane + e * ROW_GROUP);
        x[e].x = active && d < D ? factors[d * VECTORS + m] : 0.0f;
        x[e].y = active && d + 1 < D ? factors[(d + 1) * VECTORS + m] : 0.0f;
        x[e].z = active && d + 2 < D ? factors[(d + 2) * VECTORS + m] : 0.0f;
        x[e].w = active && d + 3 < D ? factors[(d + 3) * VECTORS + m] : 0.0f;
      }
      for (int r = D - 3; r >= 0; --r) {
        float4 v[QUADS];
        float overlap = 0;
#pragma unroll
        for (int e = 0; e < QUADS; ++e) {
          v[e] = reflection4(A + r * LD, lane + e * ROW_GROUP, r, beside[r]);
          overlap += dot4(v[e], x[e]);
        }
        overlap = scales[r] * group_sum(overlap);
#pragma unroll
        for (int e = 0; e < QUADS; ++e) {
          x[e].x -= overlap * v[e].x;
          x[e].y -= overlap * v[e].y;
          x[e].z -= overlap * v[e].z;
          x[e].w -= overlap * v[e].w;
        }
      }
      float square = 0;
#pragma unroll
      for (int e = 0; e < QUADS; ++e) square += dot4(x[e], x[e]);
      square = group_sum(square);
      const float scale = square > 0 ? rsqrtf(square) : 0.0f;
#pragma unroll
      for (int e = 0; e < QUADS; ++e) {
        const int quad = lane + e * ROW_GROUP;
        if (active && quad < TILES)
          store4(vectors + k * LD + 4 * quad,
                 make_float4(x[e].x * scale, x[e].y * scale, x[e].z * scale, x[e].w * scale));
      }
    }
    __syncthreads();
  }
}
