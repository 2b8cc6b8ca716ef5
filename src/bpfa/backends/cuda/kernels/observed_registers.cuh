// A row with at most OBSERVED observed entries, for gibbs.cu. Every lane has the residual at the observed columns in
// its registers, together with the entries of its own feature there. If a whole warp works on a row, the observed
// columns are dealt to its two halves alternately.
#pragma once

#include "tiles.cuh"

class Row {
 public:
  // The amount of shared memory that a row needs, counted in numbers: the offsets of its columns in a tile. The
  // function gibbs_shape in backends/cuda/launch_shapes.py must agree.
  __device__ static int numbers(int) { return (OBSERVED * sizeof(int) + sizeof(real) - 1) / sizeof(real); }

  __device__ Row(real* memory, int half_lane, int half)
      : offsets_(reinterpret_cast<int*>(memory) + (kHalves == 2 && half ? kLaneColumns : 0)),
        half_lane_(half_lane),
        half_(half) {}

  // Reads the observed columns of a row. `staging` is shared memory for OBSERVED numbers, which is used only during
  // this call.
  __device__ void begin(const real* values, const unsigned char* observed, const int* offsets, int64 base, bool live,
                        int D, unsigned short* mask, real* staging) {
    int* row_offsets = kHalves == 2 && half_ ? offsets_ - kLaneColumns : offsets_;
    n_observed_ = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + half_lane_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = __ballot_sync(EVERY_LANE, o) >> (kHalves == 2 ? 0 : half_) & 0xffffu;
      const int j = n_observed_ + __popc(bits & ((1u << half_lane_) - 1));
      const int at = kHalves == 2 ? j % 2 * kLaneColumns + j / 2 : j;
      if (o) {
        row_offsets[at] = d * TILE_STRIDE;
        staging[at] = values[base + offsets[d]];
      }
      if (mask && live && half_lane_ == 0) mask[d0 / 16] = bits;
      n_observed_ += __popc(bits);
    }
    // n_observed_ columns belong to the row, and n_half_ of them to this half of the warp: all of them, unless the
    // halves share the row. Both halves go through n_looped_ columns; the places beyond a half's own columns refer to
    // the column of zeros.
    n_looped_ = kHalves == 2 ? (n_observed_ + 1) / 2 : max(n_observed_, __shfl_xor_sync(EVERY_LANE, n_observed_, 16));
    n_half_ = kHalves == 2 ? (n_observed_ + (half_ ? 0 : 1)) / 2 : n_observed_;
    real* own_staging = staging + (kHalves == 2 && half_ ? kLaneColumns : 0);
    for (int j = n_half_ + half_lane_; j < kLaneColumns; j += 16) {
      offsets_[j] = D * TILE_STRIDE;
      own_staging[j] = 0;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) residual_[j] = own_staging[j];
    __syncwarp();
  }

  __device__ int n_observed() const { return n_observed_; }

  // Selects the tile of sixteen features that the following calls refer to, and loads this lane's feature.
  __device__ void select_tile(const real* tile) {
    const real* own = tile + half_lane_;
#pragma unroll
    for (int j = 0; j < kLaneColumns; j += 4) {
      if (j >= n_looped_) break;
      const int4 offset = *reinterpret_cast<const int4*>(offsets_ + j);
      phi_[j] = own[offset.x];
      phi_[j + 1] = own[offset.y];
      phi_[j + 2] = own[offset.z];
      phi_[j + 3] = own[offset.w];
    }
  }

  // sum_d o_d f(phi_kd, r_d) for this lane's feature.
  template <class Term>
  __device__ real sum(const Term& f) const {
    real sum[4] = {};
#pragma unroll
    for (int j = 0; j < kLaneColumns; j += 4) {
      if (j >= n_looped_) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += f(phi_[j + i], residual_[j + i]);
    }
    return sum_of_halves((sum[0] + sum[1]) + (sum[2] + sum[3]));
  }

  // The correlation of this lane's feature with the residual.
  __device__ real correlation() const {
    return sum([](real phi, real r) { return phi * r; });
  }

  // Updates the residual after x has changed by `change` for the feature of a lane, and returns the correlation of this
  // lane's own feature with the new residual. It is derived from the old correlation, as the overlap of the two
  // features is computed in the same pass.
  __device__ real change(int lane, real change, real old_correlation) {
    real overlap[2] = {};
#pragma unroll
    for (int j = 0; j < kLaneColumns; j += 4) {
      if (j >= n_looped_) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const real other = __shfl_sync(EVERY_LANE, phi_[j + i], lane, 16);
        residual_[j + i] -= change * other;
        overlap[i % 2] += phi_[j + i] * other;
      }
    }
    return old_correlation - change * sum_of_halves(overlap[0] + overlap[1]);
  }

  // Calls f(column, residual) for this lane's share of the observed columns.
  template <class Visit>
  __device__ void visit(const Visit& f) const {
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j)
      if (j % 16 == half_lane_ && j < n_half_) f(offsets_[j] / TILE_STRIDE, residual_[j]);
  }

 private:
  // Halves of a warp that share a row, and the most columns that each of them has.
  static constexpr int kHalves = ROW_LANES / 16, kLaneColumns = OBSERVED / kHalves;

  // Adds the results of the two halves of a warp if they share a row.
  __device__ static real sum_of_halves(real x) { return kHalves == 2 ? x + __shfl_xor_sync(EVERY_LANE, x, 16) : x; }

  int* offsets_;
  real residual_[kLaneColumns], phi_[kLaneColumns];
  int half_lane_, half_, n_observed_ = 0, n_half_ = 0, n_looped_ = 0;
};
