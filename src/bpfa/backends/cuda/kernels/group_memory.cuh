// The memory of the block of threads that fits one group of like rows, and what all groups of a round have in common.
#pragma once
#include "common.cuh"

// COLUMNS is the number D of columns, THREADS that of the threads that fit a group, and BLOCKS that of the groups that
// a multiprocessor fits at a time. With SCRATCH=1 the memory of a block is a part of the device's memory, for groups
// that are too large for shared memory.
#ifndef THREADS
#define THREADS 256
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef SCRATCH
#define SCRATCH 0
#endif

constexpr int D = COLUMNS;
constexpr int WARPS = THREADS / 32;
// Products of matrices are computed in tiles of 4 x 4. Rows have LD numbers, a multiple of four; it is not a multiple
// of the 32 banks of shared memory, so that the same column of several rows can be read at once.
constexpr int TILES = (D + 3) / 4;
constexpr int PADDED = 4 * TILES;
constexpr int LD = PADDED % 32 == 0 ? PADDED + 4 : PADDED;
constexpr int UPPER_TILES = TILES * (TILES + 1) / 2;
// Words that say which columns of a row are observed.
constexpr int WORDS = (D + 31) / 32;
// A member is completed from its observed columns or, if those are at least half of all, by way of its missing columns.
// Either way there is a triangular factor of at most D / 2 rows, to which one row is appended.
constexpr int FACTOR_ROWS = D / 2 + 1;
constexpr int FACTOR_SIZE = FACTOR_ROWS * (FACTOR_ROWS + 1) / 2;
// The features, and below them room for the rows of several members, or for products with the features.
constexpr int FEATURE_ROWS = 2 * D;
constexpr int COVARIANCE_ROWS = D > 2 * WARPS ? D : 2 * WARPS;

__host__ __device__ constexpr int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

// Where the arrays are, counted in numbers of four bytes. The rows X come last because the number of members varies.
constexpr int AT_S = 0;
constexpr int AT_COVARIANCE = AT_S + D * LD;
constexpr int AT_FEATURES = AT_COVARIANCE + COVARIANCE_ROWS * LD;
constexpr int AT_FACTORS = AT_FEATURES + FEATURE_ROWS * LD;
constexpr int AT_VECTORS = AT_FACTORS + round_up(WARPS * FACTOR_SIZE, 4);
constexpr int AT_MEAN = AT_VECTORS + WARPS * LD;
constexpr int AT_NOISE = AT_MEAN + LD;
constexpr int AT_DIAGONAL = AT_NOISE + LD;
constexpr int AT_SEEN = AT_DIAGONAL + LD;
constexpr int AT_PIVOTS = AT_SEEN + LD;
constexpr int AT_INVERSES = AT_PIVOTS + 2 * LD;
constexpr int AT_VALUES = AT_INVERSES + WARPS * LD;
constexpr int AT_COLUMNS = AT_VALUES + 2 * LD;
constexpr int AT_CHOICE = AT_COLUMNS + WARPS * round_up(D, 4);
constexpr int AT_X = AT_CHOICE + 4;

struct Round {
  const float* current;
  const float* seen;
  const unsigned char* observed;
  const int64* offsets;
  const float* noise;
  const double* log_prior;
  const float* prior;
  float prior_rows, floor, weight_share, smallest_pivot;
  int n_iterations;
};

struct Group {
  float* memory;
  const Round& round;
  const int64* first;
  int M, rank;

  __device__ float* S() const { return memory + AT_S; }
  __device__ float* covariance() const { return memory + AT_COVARIANCE; }
  __device__ float* features() const { return memory + AT_FEATURES; }
  // D rows that are free while the model is computed.
  __device__ float* products() const { return memory + AT_FEATURES + D * LD; }
  __device__ float* factors() const { return memory + AT_FACTORS; }
  __device__ float* factor(int warp) const { return memory + AT_FACTORS + warp * FACTOR_SIZE; }
  __device__ float* vector(int warp) const { return memory + AT_VECTORS + warp * LD; }
  __device__ float* mean() const { return memory + AT_MEAN; }
  __device__ float* noise() const { return memory + AT_NOISE; }
  // The diagonal of S, which is needed after S has been replaced by its inverse.
  __device__ float* diagonal() const { return memory + AT_DIAGONAL; }
  // In how many members each column is observed.
  __device__ float* n_seen() const { return memory + AT_SEEN; }
  __device__ float* pivots() const { return memory + AT_PIVOTS; }
  __device__ float* inverses(int warp) const { return memory + AT_INVERSES + warp * LD; }
  __device__ double* values() const { return reinterpret_cast<double*>(memory + AT_VALUES); }
  __device__ int* columns(int warp) const {
    return reinterpret_cast<int*>(memory + AT_COLUMNS) + warp * round_up(D, 4);
  }
  __device__ int* choice() const { return reinterpret_cast<int*>(memory + AT_CHOICE); }
  __device__ float* X() const { return memory + AT_X; }
  // Which columns of each member are observed, as bits, and how many.
  __device__ unsigned* observed() const { return reinterpret_cast<unsigned*>(memory + AT_X + M * LD); }
  __device__ int* n_observed() const { return reinterpret_cast<int*>(observed() + M * WORDS); }

  __device__ bool is_observed(int n, int d) const { return observed()[n * WORDS + d / 32] >> (d % 32) & 1; }
};
