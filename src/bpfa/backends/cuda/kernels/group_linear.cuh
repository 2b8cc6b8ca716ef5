// Linear algebra of small matrices by the threads of a block or of a warp.
#pragma once
#include "group_memory.cuh"

typedef float Tile[4][4];

__device__ __forceinline__ float4 load4(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ __forceinline__ void store4(float* at, float4 x) { *reinterpret_cast<float4*>(at) = x; }

// The row and the column of tile t, counted along the columns of the upper triangle: column c begins at c (c + 1) / 2.
__device__ __forceinline__ int2 tile_place(int t) {
  int column = static_cast<int>((sqrtf(8.0f * t + 1.0f) - 1.0f) * 0.5f);
  if (column * (column + 1) / 2 > t) --column;
  if ((column + 1) * (column + 2) / 2 <= t) ++column;
  return make_int2(t - column * (column + 1) / 2, column);
}

__device__ __forceinline__ void clear(Tile& tile) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) tile[r][c] = 0;
}

// Adds a tile of A^T B, where A and B have n rows.
__device__ __forceinline__ void add_products(Tile& tile, const float* A, const float* B, int n, int2 place) {
#pragma unroll 4
  for (int k = 0; k < n; ++k) {
    const float4 a4 = load4(A + k * LD + 4 * place.x), b4 = load4(B + k * LD + 4 * place.y);
    const float a[4] = {a4.x, a4.y, a4.z, a4.w}, b[4] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) tile[r][c] += a[r] * b[c];
  }
}

// Stores a tile of the upper triangle in a symmetric matrix, and its mirror image.
__device__ __forceinline__ void store_symmetric(float* matrix, const Tile& tile, int2 place) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    if (4 * place.x + r < D)
      store4(matrix + (4 * place.x + r) * LD + 4 * place.y,
             make_float4(tile[r][0], tile[r][1], tile[r][2], tile[r][3]));
    if (place.x != place.y && 4 * place.y + r < D)
      store4(matrix + (4 * place.y + r) * LD + 4 * place.x,
             make_float4(tile[0][r], tile[1][r], tile[2][r], tile[3][r]));
  }
}

// Adds `factor` times A^T A to the upper tiles of a matrix, where A has n rows.
__device__ __forceinline__ void add_square(float* matrix, const float* A, int n, float factor) {
  for (int t = threadIdx.x; t < UPPER_TILES; t += THREADS) {
    const int2 place = tile_place(t);
    Tile tile;
    clear(tile);
    add_products(tile, A, A, n, place);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (4 * place.x + r >= D) continue;
      float* const at = matrix + (4 * place.x + r) * LD + 4 * place.y;
      float4 sum = load4(at);
      sum.x += factor * tile[r][0];
      sum.y += factor * tile[r][1];
      sum.z += factor * tile[r][2];
      sum.w += factor * tile[r][3];
      store4(at, sum);
    }
  }
}

// P = A B, where A has n_rows rows of which n_inner numbers count, and B has n_inner rows.
__device__ __forceinline__ void multiply(float* P, const float* A, const float* B, int n_rows, int n_inner) {
  for (int i = threadIdx.x; i < n_rows * TILES; i += THREADS) {
    const int row = i / TILES, column = 4 * (i % TILES);
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int k = 0; k < n_inner; ++k) {
      const float a = A[row * LD + k];
      const float4 b = load4(B + k * LD + column);
      sum.x += a * b.x;
      sum.y += a * b.y;
      sum.z += a * b.z;
      sum.w += a * b.w;
    }
    store4(P + row * LD + column, sum);
  }
}

__device__ __forceinline__ float dot(const float* a, const float* b) {
  float sum = 0;
#pragma unroll 4
  for (int d = 0; d < PADDED; d += 4) {
    const float4 x = load4(a + d), y = load4(b + d);
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  return sum;
}

// Row i of a packed triangular matrix begins here.
__device__ __forceinline__ int packed(int i) { return i * (i + 1) / 2; }

// Replaces a packed symmetric matrix by its lower triangular factor L. `n_rows` - n further rows r are replaced by
// L^-1 r, as if they belonged to the matrix. Diagonals that rounding has made too small are raised. By one warp.
__device__ __forceinline__ void warp_cholesky(float* L, int n, int n_rows, float* inverse, float smallest, int lane) {
  for (int k = 0; k < n; ++k) {
    const float* const pivot_row = L + packed(k);
    float scale = 0;
    for (int begin = k; begin < n_rows; begin += 32) {
      const int i = begin + lane;
      float sum = 0;
      if (i < n_rows) {
        const float* const row = L + packed(i);
        sum = row[k];
#pragma unroll 4
        for (int j = 0; j < k; ++j) sum -= row[j] * pivot_row[j];
      }
      if (begin == k) {
        const float pivot = fmaxf(__shfl_sync(EVERY_LANE, sum, 0), smallest);
        scale = rsqrtf(pivot);
        scale *= 1.5f - 0.5f * pivot * scale * scale;
        if (lane == 0) {
          sum = pivot;
          inverse[k] = scale;
        }
      }
      // Other lanes may still read the pivot's row, but only the numbers before column k.
      if (i < n_rows) L[packed(i) + k] = sum * scale;
    }
    __syncwarp();
  }
}

// How many tiles each thread holds while a matrix is inverted.
constexpr int SLOTS = (UPPER_TILES + THREADS - 1) / THREADS;

// Stores row 4 block + within of the matrix that is being inverted, for all threads to see.
template <int Within>
__device__ __forceinline__ void publish(float* row, const Tile (&tiles)[SLOTS], const int2 (&places)[SLOTS],
                                        int block) {
#pragma unroll
  for (int s = 0; s < SLOTS; ++s) {
    const Tile& tile = tiles[s];
    if (places[s].x == block)
      store4(row + 4 * places[s].y, make_float4(tile[Within][0], tile[Within][1], tile[Within][2], tile[Within][3]));
    else if (places[s].y == block)
      store4(row + 4 * places[s].x, make_float4(tile[0][Within], tile[1][Within], tile[2][Within], tile[3][Within]));
  }
}

// One step of Gauss and Jordan: the matrix is solved for variable 4 block + within, whose row has been published.
template <int Within>
__device__ __forceinline__ void sweep(const float* row, Tile (&tiles)[SLOTS], const int2 (&places)[SLOTS], int block,
                                      float smallest) {
  const float inverse = 1 / fmaxf(row[4 * block + Within], smallest);
#pragma unroll
  for (int s = 0; s < SLOTS; ++s) {
    if (places[s].x < 0) continue;
    Tile& tile = tiles[s];
    const float4 a4 = load4(row + 4 * places[s].x), b4 = load4(row + 4 * places[s].y);
    const float a[4] = {a4.x, a4.y, a4.z, a4.w};
    const float b[4] = {b4.x * inverse, b4.y * inverse, b4.z * inverse, b4.w * inverse};
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) tile[r][c] -= a[r] * b[c];
    if (places[s].x == block)
#pragma unroll
      for (int c = 0; c < 4; ++c) tile[Within][c] = b[c];
    if (places[s].y == block)
#pragma unroll
      for (int r = 0; r < 4; ++r) tile[r][Within] = a[r] * inverse;
    if (places[s].x == block && places[s].y == block) tile[Within][Within] = -inverse;
  }
}

// Replaces a symmetric, positive definite matrix by the inverse of itself plus a diagonal. `pivots` has room for two
// rows. The matrix is held in registers; a step only exchanges one row, so that it takes one barrier.
__device__ __forceinline__ void invert(float* matrix, const float* diagonal, float* pivots, float smallest) {
  Tile tiles[SLOTS];
  int2 places[SLOTS];
#pragma unroll
  for (int s = 0; s < SLOTS; ++s) {
    const int t = threadIdx.x + s * THREADS;
    places[s] = t < UPPER_TILES ? tile_place(t) : make_int2(-1, -1);
    clear(tiles[s]);
    if (t >= UPPER_TILES) continue;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = 4 * places[s].x + r;
      if (i >= D) continue;
      const float4 x = load4(matrix + i * LD + 4 * places[s].y);
      tiles[s][r][0] = x.x, tiles[s][r][1] = x.y, tiles[s][r][2] = x.z, tiles[s][r][3] = x.w;
      if (places[s].x == places[s].y) tiles[s][r][r] += diagonal[i];
    }
  }
  float* const even = pivots;
  float* const odd = pivots + LD;
  publish<0>(even, tiles, places, 0);
  for (int block = 0; block < TILES; ++block) {
    __syncthreads();
    sweep<0>(even, tiles, places, block, smallest);
    if (4 * block + 1 >= D) break;
    publish<1>(odd, tiles, places, block);
    __syncthreads();
    sweep<1>(odd, tiles, places, block, smallest);
    if (4 * block + 2 >= D) break;
    publish<2>(even, tiles, places, block);
    __syncthreads();
    sweep<2>(even, tiles, places, block, smallest);
    if (4 * block + 3 >= D) break;
    publish<3>(odd, tiles, places, block);
    __syncthreads();
    sweep<3>(odd, tiles, places, block, smallest);
    publish<0>(even, tiles, places, block + 1);
  }
#pragma unroll
  for (int s = 0; s < SLOTS; ++s) {
    if (places[s].x < 0) continue;
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) tiles[s][r][c] = -tiles[s][r][c];
    store_symmetric(matrix, tiles[s], places[s]);
  }
  __syncthreads();
}
