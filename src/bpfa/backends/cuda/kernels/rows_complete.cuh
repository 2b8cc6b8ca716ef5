// A complete row, for gibbs_rows.cu. The correlations of all features with the residual are in the registers of the
// row's lanes, and changing a feature subtracts a row of the Gram matrix from them. The rows of the Gram matrix that
// belong to the features that are on most often are kept in shared memory.
#pragma once

#include "common.cuh"

// What is the same for a feature in all rows: its log odds to base 2 at a correlation of zero, the factor by which they
// grow with the squared correlation, the sum of phi^2, and the address of its row of the Gram matrix in shared memory,
// or 0 if it is not there. Addresses are small enough to be exact as floating-point numbers.
struct alignas(4 * sizeof(real)) Odds {
  real prior, gain, phi2, gram_row;
};

// Two ways to assign four of the D columns of a row to a lane: adjacent columns, which can be read at once if D is a
// multiple of four, or columns that are sixteen apart.
struct AdjacentColumns {
  __device__ static int first(int half_lane) { return 4 * half_lane; }
  __device__ static Four read(const real* row, int d, int) { return *reinterpret_cast<const Four*>(row + d); }
  // Returns the sum of squares.
  __device__ static real write(real* row, int d, int, const Four& numbers) {
    *reinterpret_cast<Four*>(row + d) = numbers;
    real sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += numbers.number[i] * numbers.number[i];
    return sum;
  }
};

struct StridedColumns {
  __device__ static int first(int half_lane) { return half_lane; }
  __device__ static Four read(const real* row, int d, int D) {
    Four four;
#pragma unroll
    for (int i = 0; i < 4; ++i) four.number[i] = row[min(d + 16 * i, D - 1)];
    return four;
  }
  __device__ static real write(real* row, int d, int D, const Four& numbers) {
    real sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (d + 16 * i >= D) break;
      row[d + 16 * i] = numbers.number[i];
      sum += numbers.number[i] * numbers.number[i];
    }
    return sum;
  }
};

class Row {
 public:
  // Numbers in a row of the Gram matrix. For every group of four tiles, the four entries of the first lane are followed
  // by those of the next lane.
  static constexpr int kGramNumbers = 16 * FEATURE_TILES;

  // The amounts of shared memory that a block and a row need, counted in numbers; gibbs_rows_shape in
  // backends/cuda/launch_shapes.py must agree. The memory of a row is an odd multiple of sixteen numbers, so that the
  // two rows of a warp are in different banks.
  __device__ static int block_numbers(int n_resident) { return (4 + n_resident) * kGramNumbers; }
  __device__ static int row_numbers() { return kGramNumbers / 32 * 32 + 16; }

  __device__ Row(const real* block_memory, real* memory, const real* gram, int half_lane)
      : features_(shared_address(block_memory)), x_(shared_address(memory)), gram_(gram), half_lane_(half_lane) {}

  // Fills the memory of the block. `ranked` is shared memory for one number of every feature, which is used only during
  // this call. Features with the largest prior odds rank first, and their rows of the Gram matrix are copied.
  __device__ static void fill(real* block_memory, int* ranked, int n_resident, const real* gram, const real* phi2_all,
                              const real* s_all, const real* logit2, real g_o, real g_w, real half_g_o2) {
    Odds* features = reinterpret_cast<Odds*>(block_memory);
    real* resident = block_memory + 4 * kGramNumbers;
    for (int k = threadIdx.x; k < kGramNumbers; k += blockDim.x) {
      int rank = 0;
      const real odds = logit2[k];
      for (int j = 0; j < kGramNumbers; ++j) rank += logit2[j] > odds || (logit2[j] == odds && j < k);
      ranked[rank] = k;
      const real kappa = g_w + g_o * s_all[k];
      features[k] = {odds - real(0.5) * log_2(kappa / g_w), half_g_o2 / kappa, phi2_all[k],
                     static_cast<real>(rank < n_resident ? shared_address(resident + rank * kGramNumbers) : 0)};
    }
    __syncthreads();
    for (int i = 4 * threadIdx.x; i < n_resident * kGramNumbers; i += 4 * blockDim.x)
      *reinterpret_cast<Four*>(resident + i) = *reinterpret_cast<const Four*>(
          gram + static_cast<int64>(ranked[i / kGramNumbers]) * kGramNumbers + i % kGramNumbers);
  }

  // Starts a row whose correlations with the features are given, with all features off.
  __device__ void begin(const real* correlations, bool live) {
#pragma unroll
    for (int tile = 0; tile < FEATURE_TILES; ++tile) {
      correlations_[tile] = live ? correlations[16 * tile + half_lane_] : real(0);
      x(16 * tile + half_lane_) = 0;
    }
  }

  // Selects the tile of sixteen features that the following calls refer to. Registers cannot be indexed at run time, so
  // the correlation of this tile is selected in a binary tree, with one level for each bit of `tile`.
  __device__ void select_tile(int tile) {
    tile_offset_ = tile / 4 * 64 + tile % 4;
    real candidates[FEATURE_TILES];
#pragma unroll
    for (int i = 0; i < FEATURE_TILES; ++i) candidates[i] = correlations_[i];
#pragma unroll
    for (int bit = 1; bit < FEATURE_TILES; bit *= 2) {
#pragma unroll
      for (int i = 0; i + bit < FEATURE_TILES; i += 2 * bit)
        candidates[i] = tile & bit ? candidates[i + bit] : candidates[i];
    }
    current_ = candidates[0];
  }

  __device__ real correlation() const { return current_; }
  __device__ Odds odds(int k) const { return at_shared<const Odds>(features_ + k * sizeof(Odds)); }
  __device__ real& x(int k) const { return at_shared<real>(x_ + k * sizeof(real)); }

  // The address of a feature's row of the Gram matrix in shared memory, or 0; and some valid address, for rows that do
  // not change.
  __device__ static unsigned gram_row(const Odds& odds) { return static_cast<unsigned>(odds.gram_row); }
  __device__ unsigned any_gram_row() const { return features_ + kGramNumbers * sizeof(Odds); }

  // Updates the correlations after x_k has changed. k may differ between the two rows of a warp. Shared memory is used
  // only if it has the Gram rows of both.
  __device__ void change(int k, real change, unsigned gram_row) {
    if (__any_sync(EVERY_LANE, gram_row == 0))
      subtract(gram_ + static_cast<int64>(k) * kGramNumbers, change);
    else
      subtract(&at_shared<const real>(gram_row), change);
  }

 private:
  __device__ __forceinline__ void subtract(const real* overlaps, real change) {
    const real* lane_overlaps = overlaps + 4 * half_lane_;
    current_ -= change * lane_overlaps[tile_offset_];
#pragma unroll
    for (int tile = 0; tile < FEATURE_TILES; tile += 4) {
      const Four four = *reinterpret_cast<const Four*>(lane_overlaps + 16 * tile);
#pragma unroll
      for (int i = 0; i < 4; ++i) correlations_[tile + i] -= change * four.number[i];
    }
  }

  unsigned features_, x_;  // addresses in shared memory
  const real* gram_;
  int half_lane_, tile_offset_ = 0;
  real correlations_[FEATURE_TILES], current_ = 0;
};
