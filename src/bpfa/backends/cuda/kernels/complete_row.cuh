// A complete row, for gibbs.cu. The correlations of all features with the residual are kept, and changing a feature
// subtracts a row of the Gram matrix from them. Lane i of a half warp holds the correlations of feature i of every tile
// of sixteen features. For up to 64 GROUPS features they are in registers. Registers can only be indexed by constants,
// so those of the current group of four tiles come first, and `next_group` rotates them. If GROUPS is 0, the
// correlations are in shared memory.
#pragma once

#include "common.cuh"

class Row {
 public:
  // The amount of shared memory that a row needs, counted in numbers.
  __device__ static int numbers(int KP) { return GROUPS ? 0 : KP; }

  __device__ Row(real* memory, int half_lane, const real* gram, int KP)
      : shared_(memory), gram_(gram), half_lane_(half_lane), KP_(KP) {}

  // Starts a row whose correlations with the features are given; lanes without a row start with zeros.
  __device__ void begin(const real* correlations, bool live) {
#if GROUPS
#pragma unroll
    for (int b = 0; b < 4 * GROUPS; ++b) registers_[b] = live ? correlations[16 * b + half_lane_] : 0;
#else
    for (int k = half_lane_; k < KP_; k += 16) shared_[k] = live ? correlations[k] : 0;
    __syncwarp();
#endif
  }

  // The correlation of this lane's feature in tile b, which is number `part` of the four tiles in the current group.
  __device__ real correlation(int b, int part) const {
#if GROUPS
    return registers_[part];
#else
    return shared_[16 * b + half_lane_];
#endif
  }

  // Updates the correlations after x_k has changed, while group g is the current one. In each row of the Gram matrix
  // the entries are ordered by lane: those of one lane for all tiles are adjacent.
  __device__ void change(int k, real change, int g) {
    const real* overlaps = gram_ + static_cast<int64>(k) * KP_ + half_lane_ * (KP_ / 16);
#if GROUPS
    struct alignas(4 * sizeof(real)) Four {
      real number[4];
    };
#pragma unroll
    for (int i = 0; i < GROUPS; ++i) {
      const int group = g + i < GROUPS ? g + i : g + i - GROUPS;
      const Four four = *reinterpret_cast<const Four*>(overlaps + 4 * group);
#pragma unroll
      for (int j = 0; j < 4; ++j) registers_[4 * i + j] -= change * four.number[j];
    }
#else
    for (int b = 0; b < KP_ / 16; ++b) shared_[16 * b + half_lane_] -= change * overlaps[b];
    __syncwarp();
#endif
  }

  // Makes the next group of four tiles the current one.
  __device__ void next_group() {
#if GROUPS
    real first[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) first[i] = registers_[i];
#pragma unroll
    for (int i = 0; i < 4 * GROUPS - 4; ++i) registers_[i] = registers_[i + 4];
#pragma unroll
    for (int i = 0; i < 4; ++i) registers_[4 * GROUPS - 4 + i] = first[i];
#endif
  }

 private:
  real* shared_;
  const real* gram_;
  int half_lane_, KP_;
#if GROUPS
  real registers_[4 * GROUPS];
#endif
};
