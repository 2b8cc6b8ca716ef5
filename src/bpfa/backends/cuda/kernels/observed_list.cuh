// A row with any number of missing entries, for gibbs.cu: its observed columns are a list in shared memory.
#pragma once

#include "tiles.cuh"

class Row {
 public:
  // The amount of shared memory that a row needs, counted in numbers; a multiple of four. The function gibbs_shape in
  // backends/cuda/launch_shapes.py must agree.
  __device__ static int numbers(int D) { return 2 * padded_columns(D); }

  __device__ Row(real* memory, int half_lane, int half)
      : columns_(reinterpret_cast<Observed*>(memory)), half_lane_(half_lane), half_(half) {}

  // Reads the observed columns of a row.
  __device__ void begin(const real* values, const unsigned char* observed, const int* offsets, int64 base, bool live,
                        int D, unsigned short* mask, real*) {
    n_observed_ = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + half_lane_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = (__ballot_sync(EVERY_LANE, o) >> half_) & 0xffffu;
      if (o)
        columns_[n_observed_ + __popc(bits & ((1u << half_lane_) - 1))] = {d * TILE_STRIDE, values[base + offsets[d]]};
      if (mask && live && half_lane_ == 0) mask[d0 / 16] = bits;
      n_observed_ += __popc(bits);
    }
    // The two rows of a warp go through the same number of columns. Places beyond a row's own columns refer to the
    // column of zeros.
    n_padded_ = (max(n_observed_, __shfl_xor_sync(EVERY_LANE, n_observed_, 16)) + 3) / 4 * 4;
    for (int j = n_observed_ + half_lane_; j < n_padded_; j += 16) columns_[j] = {D * TILE_STRIDE, 0};
    __syncwarp();
  }

  __device__ int n_observed() const { return n_observed_; }

  // Selects the tile of sixteen features that the following calls refer to.
  __device__ void select_tile(const real* tile) { tile_ = tile; }

  // sum_d o_d f(phi_kd, r_d) for this lane's feature. Four partial sums are independent of one another, so that
  // additions need not wait for each other.
  template <class Term>
  __device__ real sum(const Term& f) const {
    real sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (int j = 0; j < n_padded_; j += 4) {
      const Observed a = columns_[j], b = columns_[j + 1], c = columns_[j + 2], d = columns_[j + 3];
      sum0 += f(tile_[a.offset + half_lane_], a.residual);
      sum1 += f(tile_[b.offset + half_lane_], b.residual);
      sum2 += f(tile_[c.offset + half_lane_], c.residual);
      sum3 += f(tile_[d.offset + half_lane_], d.residual);
    }
    return (sum0 + sum1) + (sum2 + sum3);
  }

  __device__ real correlation() const {
    return sum([](real phi, real r) { return phi * r; });
  }

  // Updates the residual after x has changed by `change` for the feature of a lane, and returns the correlation of this
  // lane's own feature with the new residual.
  __device__ real change(int lane, real change, real) {
    // Wait until all lanes have read what is now overwritten.
    __syncwarp();
    for (int j = half_lane_; j < n_observed_; j += 16) {
      const Observed at = columns_[j];
      columns_[j].residual = at.residual - change * tile_[at.offset + lane];
    }
    __syncwarp();
    const real updated = correlation();
    __syncwarp();
    return updated;
  }

  // Calls f(column, residual) for this lane's share of the observed columns.
  template <class Visit>
  __device__ void visit(const Visit& f) const {
    for (int j = half_lane_; j < n_observed_; j += 16) f(columns_[j].offset / TILE_STRIDE, columns_[j].residual);
  }

 private:
  // Where an observed column begins in a tile, and the residual there.
  struct Observed {
    int offset;
    real residual;
  };

  __device__ static int padded_columns(int D) { return (D + 3) / 4 * 4; }

  Observed* columns_;
  const real* tile_ = nullptr;
  int half_lane_, half_, n_observed_ = 0, n_padded_ = 0;
};
