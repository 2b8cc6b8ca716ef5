// Eigenvalues and eigenvectors of a symmetric, positive semidefinite matrix by the threads of a block.
#pragma once
#include "group_linear.cuh"

// Pairs of rows are rotated by eight lanes each, in rounds in which every row is in one pair.
constexpr int EVEN = D + D % 2, PAIRS = EVEN / 2, PAIR_LANES = 8;
constexpr int QUADS = (TILES + PAIR_LANES - 1) / PAIR_LANES;
constexpr int MOST_SWEEPS = 15;
// Rows are rotated if the cosine between them is more than `ORTHOGONAL`. Once a sweep finds no cosine of more than
// `SETTLED` it is the last one: each sweep then squares the cosines, or nearly. Rows whose length is a smaller share of
// the trace than `NEGLIGIBLE` are rounding errors.
#define ORTHOGONAL 1e-6f
#define SETTLED 1e-4f
#define NEGLIGIBLE 1e-7f

__device__ __forceinline__ float pair_sum(float x) {
#pragma unroll
  for (int offset = PAIR_LANES / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(EVERY_LANE, x, offset);
  return x;
}

// Makes rows p and q orthogonal by a rotation, if they are not; returns whether they were far from it. Every lane of a
// warp must call this; with `active` false nothing is done.
__device__ __forceinline__ bool rotate(float* W, int p, int q, bool active, float negligible) {
  const int lane = threadIdx.x % PAIR_LANES;
  float4 a[QUADS], b[QUADS];
  float aa = 0, bb = 0, ab = 0;
#pragma unroll
  for (int e = 0; e < QUADS; ++e) {
    const int quad = lane + PAIR_LANES * e;
    const bool inside = active && quad < TILES;
    a[e] = inside ? load4(W + p * LD + 4 * quad) : make_float4(0, 0, 0, 0);
    b[e] = inside ? load4(W + q * LD + 4 * quad) : make_float4(0, 0, 0, 0);
    aa += a[e].x * a[e].x + a[e].y * a[e].y + a[e].z * a[e].z + a[e].w * a[e].w;
    bb += b[e].x * b[e].x + b[e].y * b[e].y + b[e].z * b[e].z + b[e].w * b[e].w;
    ab += a[e].x * b[e].x + a[e].y * b[e].y + a[e].z * b[e].z + a[e].w * b[e].w;
  }
  aa = pair_sum(aa);
  bb = pair_sum(bb);
  ab = pair_sum(ab);
  if (fminf(aa, bb) <= negligible || ab * ab <= ORTHOGONAL * ORTHOGONAL * aa * bb) return false;
  const float zeta = (bb - aa) / (2 * ab);
  const float t = copysignf(1 / (fabsf(zeta) + sqrtf(1 + zeta * zeta)), zeta);
  const float square = 1 + t * t;
  float c = rsqrtf(square);
  c *= 1.5f - 0.5f * square * c * c;
  const float s = c * t;
#pragma unroll
  for (int e = 0; e < QUADS; ++e) {
    const int quad = lane + PAIR_LANES * e;
    if (quad >= TILES) continue;
    const float4 x = a[e], y = b[e];
    store4(W + p * LD + 4 * quad, make_float4(c * x.x - s * y.x, c * x.y - s * y.y, c * x.z - s * y.z, c * x.w - s * y.w));
    store4(W + q * LD + 4 * quad, make_float4(s * x.x + c * y.x, s * x.y + c * y.y, s * x.z + c * y.z, s * x.w + c * y.w));
  }
  return ab * ab > SETTLED * SETTLED * aa * bb;
}

// Rotates the rows of a symmetric matrix W = U diag(lambda) U^T until they are orthogonal (Hestenes' one-sided method of
// Jacobi): they are then lambda_j u_j.
__device__ __forceinline__ void orthogonalise(float* W, float trace) {
  const float negligible = NEGLIGIBLE * trace * NEGLIGIBLE * trace;
  constexpr int AT_ONCE = THREADS / PAIR_LANES;
  for (int sweeps = 0; sweeps < MOST_SWEEPS; ++sweeps) {
    bool unsettled = false;
    for (int turn = 0; turn < EVEN - 1; ++turn) {
      for (int begin = 0; begin < PAIRS; begin += AT_ONCE) {
        const int k = begin + threadIdx.x / PAIR_LANES;
        // Everybody meets everybody once: row EVEN - 1 stays, and the others move in a circle.
        const int q = (turn + EVEN - 1 - k) % (EVEN - 1), p = k == 0 ? EVEN - 1 : (turn + k) % (EVEN - 1);
        unsettled |= rotate(W, p, q, k < PAIRS && p < D && q < D, negligible);
      }
      __syncthreads();
    }
    if (!__syncthreads_or(unsettled)) break;
  }
}

// The eigenvalues of W in descending order, plus `floor`, and the eigenvectors as rows of `vectors`. W is overwritten.
__device__ __forceinline__ void symmetric_eigen(float* W, float trace, float* lengths, double* values, float* vectors,
                                                float floor) {
  orthogonalise(W, trace);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int j = warp; j < D; j += WARPS) {
    float square = 0;
    for (int d = lane; d < D; d += 32) square += W[j * LD + d] * W[j * LD + d];
    square = lane_sum<32>(square);
    if (lane == 0) lengths[j] = sqrtf(square);
  }
  __syncthreads();
  for (int j = warp; j < D; j += WARPS) {
    const float length = lengths[j], scale = length > 0 ? 1 / length : 0;
    int place = 0;
    for (int i = lane; i < D; i += 32) place += lengths[i] > length || (lengths[i] == length && i < j);
    place = lane_sum<32>(place);
    if (lane == 0) values[place] = static_cast<double>(length) + floor;
    for (int d = lane; d < PADDED; d += 32) vectors[place * LD + d] = W[j * LD + d] * scale;
  }
  __syncthreads();
}
