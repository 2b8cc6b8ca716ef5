// A complete row, for gibbs_rows.cu: the correlations of all features are in the registers of its lanes, and changed by
// a row of the Gram matrix. Those of the features that are on most often are in shared memory.
#pragma once

#include "common.cuh"

// What all rows know of a feature: its log odds to base 2 where the correlation is zero, and how they grow with its
// square; `gram_row` is where its row of the Gram matrix is in shared memory, or 0.
struct alignas(4 * sizeof(real)) Odds {
  real prior, gain, phi2, gram_row;
};

// Four columns of a row of D: those of a lane one after another, which can be read at once if D is a multiple of four,
// or sixteen apart.
struct AdjacentColumns {
  __device__ static int first(int sub) { return 4 * sub; }
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
  __device__ static int first(int sub) { return sub; }
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
  // Numbers in a row of the Gram matrix: of each lane four after one another, then those of the next lane.
  static constexpr int kGram = 16 * FEATURE_TILES;

  // Numbers of shared memory, of a block and of a row; rows_shape_of in gpu/gibbs.py knows both. Rows that are looked
  // at together begin in different banks.
  __device__ static int block_numbers(int n_resident) { return (4 + n_resident) * kGram; }
  __device__ static int row_numbers() { return kGram / 32 * 32 + 16; }

  __device__ Row(const real* block_memory, real* memory, const real* gram, int sub)
      : features_(shared_address(block_memory)), x_(shared_address(memory)), gram_(gram), sub_(sub) {}

  // `ranked` is room for a number of every feature, for a while.
  __device__ static void fill(real* block_memory, int* ranked, int n_resident, const real* gram, const real* phi2_all,
                              const real* s_all, const real* logit2, real g_o, real g_w, real half_g_o2) {
    Odds* features = reinterpret_cast<Odds*>(block_memory);
    real* resident = block_memory + 4 * kGram;
    for (int k = threadIdx.x; k < kGram; k += blockDim.x) {
      int rank = 0;
      const real odds = logit2[k];
      for (int j = 0; j < kGram; ++j) rank += logit2[j] > odds || (logit2[j] == odds && j < k);
      ranked[rank] = k;
      const real kappa = g_w + g_o * s_all[k];
      features[k] = {odds - real(0.5) * log_2(kappa / g_w), half_g_o2 / kappa, phi2_all[k],
                     static_cast<real>(rank < n_resident ? shared_address(resident + rank * kGram) : 0)};
    }
    __syncthreads();
    for (int i = 4 * threadIdx.x; i < n_resident * kGram; i += 4 * blockDim.x)
      *reinterpret_cast<Four*>(resident + i) =
          *reinterpret_cast<const Four*>(gram + static_cast<int64>(ranked[i / kGram]) * kGram + i % kGram);
  }

  __device__ void begin(const real* correlations, bool live) {
#pragma unroll
    for (int tile = 0; tile < FEATURE_TILES; ++tile) {
      own_[tile] = live ? correlations[16 * tile + sub_] : real(0);
      x(16 * tile + sub_) = 0;
    }
  }

  // Sixteen features come into view. Registers have no index: a tournament finds those of a tile.
  __device__ void look_at(int tile) {
    at_ = tile / 4 * 64 + tile % 4;
    real left[FEATURE_TILES];
#pragma unroll
    for (int i = 0; i < FEATURE_TILES; ++i) left[i] = own_[i];
#pragma unroll
    for (int bit = 1; bit < FEATURE_TILES; bit *= 2) {
#pragma unroll
      for (int i = 0; i + bit < FEATURE_TILES; i += 2 * bit) left[i] = tile & bit ? left[i + bit] : left[i];
    }
    seen_ = left[0];
  }

  __device__ real correlation() const { return seen_; }
  __device__ Odds odds(int k) const { return at_shared<const Odds>(features_ + k * sizeof(Odds)); }
  __device__ real& x(int k) const { return at_shared<real>(x_ + k * sizeof(real)); }

  // Where a feature's row of the Gram matrix is in shared memory, or 0.
  __device__ static unsigned gram_row(const Odds& odds) { return static_cast<unsigned>(odds.gram_row); }
  __device__ unsigned any_gram_row() const { return features_ + kGram * sizeof(Odds); }

  // Feature k grows, which may be another one in every row.
  __device__ void change(int k, real change, unsigned gram_row) {
    if (__any_sync(EVERY_LANE, gram_row == 0))
      grow(gram_ + static_cast<int64>(k) * kGram, change);
    else
      grow(&at_shared<const real>(gram_row), change);
  }

 private:
  __device__ __forceinline__ void grow(const real* overlaps, real change) {
    const real* own = overlaps + 4 * sub_;
    seen_ -= change * own[at_];
#pragma unroll
    for (int tile = 0; tile < FEATURE_TILES; tile += 4) {
      const Four four = *reinterpret_cast<const Four*>(own + 16 * tile);
#pragma unroll
      for (int i = 0; i < 4; ++i) own_[tile + i] -= change * four.number[i];
    }
  }

  unsigned features_, x_;  // addresses in shared memory
  const real* gram_;
  int sub_, at_ = 0;
  real own_[FEATURE_TILES], seen_ = 0;
};
