// A row with missing entries and at most OBSERVED others: a lane has the residual in its registers, and the entries of
// its own feature at the observed columns beside it. Where a row has a whole warp, each half has every second column.
#pragma once

#include "tiles.cuh"

class Row {
 public:
  __device__ static int numbers(int) { return (OBSERVED * sizeof(int) + sizeof(real) - 1) / sizeof(real); }

  __device__ Row(real* memory, int sub, int half)
      : places_(reinterpret_cast<int*>(memory) + (kHalves == 2 && half ? kOwn : 0)), sub_(sub), half_(half) {}

  // Reads the observed columns of a row; `room` is shared memory for OBSERVED numbers, for a while.
  __device__ void begin(const real* values, const unsigned char* observed, const int* offsets, int64 base, bool live,
                        int D, unsigned short* mask, real* room) {
    int* places = kHalves == 2 && half_ ? places_ - kOwn : places_;
    n_row_ = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + sub_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = __ballot_sync(EVERY_LANE, o) >> (kHalves == 2 ? 0 : half_) & 0xffffu;
      const int j = n_row_ + __popc(bits & ((1u << sub_) - 1));
      const int at = kHalves == 2 ? j % 2 * kOwn + j / 2 : j;
      if (o) {
        places[at] = d * TILE_STRIDE;
        room[at] = values[base + offsets[d]];
      }
      if (mask && live && sub_ == 0) mask[d0 / 16] = bits;
      n_row_ += __popc(bits);
    }
    n_seen_ = kHalves == 2 ? (n_row_ + 1) / 2 : max(n_row_, __shfl_xor_sync(EVERY_LANE, n_row_, 16));
    n_own_ = kHalves == 2 ? (n_row_ + (half_ ? 0 : 1)) / 2 : n_row_;
    real* own_room = room + (kHalves == 2 && half_ ? kOwn : 0);
    for (int j = n_own_ + sub_; j < kOwn; j += 16) {
      places_[j] = D * TILE_STRIDE;
      own_room[j] = 0;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kOwn; ++j) residual_[j] = own_room[j];
    __syncwarp();
  }

  __device__ int n_observed() const { return n_row_; }

  __device__ void look_at(const real* tile) {
    const real* own = tile + sub_;
#pragma unroll
    for (int j = 0; j < kOwn; j += 4) {
      if (j >= n_seen_) break;
      const int4 place = *reinterpret_cast<const int4*>(places_ + j);
      phi_[j] = own[place.x];
      phi_[j + 1] = own[place.y];
      phi_[j + 2] = own[place.z];
      phi_[j + 3] = own[place.w];
    }
  }

  template <class Term>
  __device__ real sum(const Term& f) const {
    real sum[4] = {};
#pragma unroll
    for (int j = 0; j < kOwn; j += 4) {
      if (j >= n_seen_) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += f(phi_[j + i], residual_[j + i]);
    }
    return both((sum[0] + sum[1]) + (sum[2] + sum[3]));
  }

  __device__ real correlation() const {
    return sum([](real phi, real r) { return phi * r; });
  }

  __device__ real change(int lane, real change, real correlated) {
    real overlap[2] = {};
#pragma unroll
    for (int j = 0; j < kOwn; j += 4) {
      if (j >= n_seen_) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const real other = __shfl_sync(EVERY_LANE, phi_[j + i], lane, 16);
        residual_[j + i] -= change * other;
        overlap[i % 2] += phi_[j + i] * other;
      }
    }
    return correlated - change * both(overlap[0] + overlap[1]);
  }

  template <class Visit>
  __device__ void visit(const Visit& f) const {
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
      if (j % 16 == sub_ && j < n_own_) f(places_[j] / TILE_STRIDE, residual_[j]);
  }

 private:
  static constexpr int kHalves = ROW_LANES / 16, kOwn = OBSERVED / kHalves;

  __device__ static real both(real x) { return kHalves == 2 ? x + __shfl_xor_sync(EVERY_LANE, x, 16) : x; }

  int* places_;
  real residual_[kOwn], phi_[kOwn];
  int sub_, half_, n_row_ = 0, n_own_ = 0, n_seen_ = 0;
};
