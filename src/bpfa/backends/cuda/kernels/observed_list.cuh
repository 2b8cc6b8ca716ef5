// A row with missing entries, any number of them: its observed columns are a list in shared memory.
#pragma once

#include "tiles.cuh"

class Row {
 public:
  // Numbers of shared memory, whole groups of four; shared_rows in gpu/gibbs.py knows them too.
  __device__ static int numbers(int D) { return 2 * places_of(D); }

  __device__ Row(real* memory, int sub, int half)
      : seen_(reinterpret_cast<Observed*>(memory)), sub_(sub), half_(half) {}

  // Reads the observed columns of a row.
  __device__ void begin(const real* values, const unsigned char* observed, const int* offsets, int64 base, bool live,
                        int D, unsigned short* mask, real*) {
    n_own_ = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + sub_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = (__ballot_sync(EVERY_LANE, o) >> half_) & 0xffffu;
      if (o) seen_[n_own_ + __popc(bits & ((1u << sub_) - 1))] = {d * TILE_STRIDE, values[base + offsets[d]]};
      if (mask && live && sub_ == 0) mask[d0 / 16] = bits;
      n_own_ += __popc(bits);
    }
    // Both rows of a warp loop as often; columns beyond a row's own are the one of zeros.
    n_seen_ = (max(n_own_, __shfl_xor_sync(EVERY_LANE, n_own_, 16)) + 3) / 4 * 4;
    for (int j = n_own_ + sub_; j < n_seen_; j += 16) seen_[j] = {D * TILE_STRIDE, 0};
    __syncwarp();
  }

  __device__ int n_observed() const { return n_own_; }

  // Sixteen features come into view.
  __device__ void look_at(const real* tile) { tile_ = tile; }

  // sum_d o_d f(phi_kd, r_d) of this lane's feature.
  template <class Term>
  __device__ real sum(const Term& f) const {
    real sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (int j = 0; j < n_seen_; j += 4) {
      const Observed a = seen_[j], b = seen_[j + 1], c = seen_[j + 2], d = seen_[j + 3];
      sum0 += f(tile_[a.place + sub_], a.residual);
      sum1 += f(tile_[b.place + sub_], b.residual);
      sum2 += f(tile_[c.place + sub_], c.residual);
      sum3 += f(tile_[d.place + sub_], d.residual);
    }
    return (sum0 + sum1) + (sum2 + sum3);
  }

  __device__ real correlation() const {
    return sum([](real phi, real r) { return phi * r; });
  }

  // Takes what a feature of this tile explains more out of the residual; returns the correlation after it.
  __device__ real change(int lane, real change, real) {
    // All lanes have read what is now written.
    __syncwarp();
    for (int j = sub_; j < n_own_; j += 16) {
      const Observed at = seen_[j];
      seen_[j].residual = at.residual - change * tile_[at.place + lane];
    }
    __syncwarp();
    const real correlated = correlation();
    __syncwarp();
    return correlated;
  }

  // Calls f(column, residual) for this lane's share of the observed columns.
  template <class Visit>
  __device__ void visit(const Visit& f) const {
    for (int j = sub_; j < n_own_; j += 16) f(seen_[j].place / TILE_STRIDE, seen_[j].residual);
  }

 private:
  // Where a column is in a tile, and what is left of it.
  struct Observed {
    int place;
    real residual;
  };

  __device__ static int places_of(int D) { return (D + 3) / 4 * 4; }

  Observed* seen_;
  const real* tile_ = nullptr;
  int sub_, half_, n_own_ = 0, n_seen_ = 0;
};
