// A complete row: the correlations of all features are kept, and changed by a row of the Gram matrix. For up to
// 64 GROUPS features they are in registers, of each lane those of its own place in every tile; those of the group of
// four tiles that is looked at come first. Without GROUPS they are in shared memory.
#pragma once

#include "common.cuh"

class Row {
 public:
  __device__ static int numbers(int KP) { return GROUPS ? 0 : KP; }

  __device__ Row(real* memory, int sub, const real* gram, int KP) : kept_(memory), gram_(gram), sub_(sub), KP_(KP) {}

  __device__ void begin(const real* correlations, bool live) {
#if GROUPS
#pragma unroll
    for (int b = 0; b < 4 * GROUPS; ++b) own_[b] = live ? correlations[16 * b + sub_] : 0;
#else
    for (int k = sub_; k < KP_; k += 16) kept_[k] = live ? correlations[k] : 0;
    __syncwarp();
#endif
  }

  // Of tile b, which is a part of the group that is looked at.
  __device__ real correlation(int b, int part) const {
#if GROUPS
    return own_[part];
#else
    return kept_[16 * b + sub_];
#endif
  }

  // Feature k grows while group g is looked at. The Gram matrix has, after one another, the features of one lane in
  // all tiles.
  __device__ void change(int k, real change, int g) {
    const real* overlaps = gram_ + static_cast<int64>(k) * KP_ + sub_ * (KP_ / 16);
#if GROUPS
    struct alignas(4 * sizeof(real)) Four {
      real number[4];
    };
#pragma unroll
    for (int i = 0; i < GROUPS; ++i) {
      const int group = g + i < GROUPS ? g + i : g + i - GROUPS;
      const Four four = *reinterpret_cast<const Four*>(overlaps + 4 * group);
#pragma unroll
      for (int j = 0; j < 4; ++j) own_[4 * i + j] -= change * four.number[j];
    }
#else
    for (int b = 0; b < KP_ / 16; ++b) kept_[16 * b + sub_] -= change * overlaps[b];
    __syncwarp();
#endif
  }

  __device__ void next_group() {
#if GROUPS
    real first[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) first[i] = own_[i];
#pragma unroll
    for (int i = 0; i < 4 * GROUPS - 4; ++i) own_[i] = own_[i + 4];
#pragma unroll
    for (int i = 0; i < 4; ++i) own_[4 * GROUPS - 4 + i] = first[i];
#endif
  }

 private:
  real* kept_;
  const real* gram_;
  int sub_, KP_;
#if GROUPS
  real own_[4 * GROUPS];
#endif
};
