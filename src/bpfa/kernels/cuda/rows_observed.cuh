// A row with missing entries and at most OBSERVED others, for gibbs_rows.cu: its residual is divided between its lanes,
// so that a change costs each of them few products, and a lane has the entries of its own feature at all columns.
#pragma once

#include "common.cuh"

class Row {
 public:
  // Numbers of shared memory: of a block, log odds and the dictionary, a column after another; the stride keeps a
  // feature's entries in different banks. One more column, of zeros, is where places point that are not observed.
  __device__ static int stride(int KP) { return KP + 2; }
  __device__ static int block_numbers(int D, int KP) { return (D + 1) * stride(KP) / 4 * 4 + 4 + KP; }
  // Of a row; rows_shape_of in gpu/gibbs.py knows both. Rows that are looked at together begin in different banks.
  __device__ static int row_numbers(int KP) { return (2 * KP + kResidual + kPlaces + 31) / 32 * 32 + 16; }

  __device__ Row(const real* block_memory, real* memory, int sub, int KP)
      : logits_(block_memory),
        dictionary_(block_memory + KP),
        s_(memory),
        x_(memory + KP),
        residual_(memory + 2 * KP),
        places_(reinterpret_cast<int*>(memory + 2 * KP + kResidual)),
        sub_(sub),
        stride_(stride(KP)) {}

  __device__ static void fill(real* block_memory, const real* phi_rows, const real* logit2, int D, int KP) {
    real* dictionary = block_memory + KP;
    for (int k = threadIdx.x; k < KP; k += blockDim.x) block_memory[k] = logit2[k];
    for (int i = threadIdx.x; i < KP * D; i += blockDim.x) dictionary[i % D * stride(KP) + i / D] = phi_rows[i];
    for (int k = threadIdx.x; k < KP; k += blockDim.x) dictionary[D * stride(KP) + k] = 0;
  }

  // Reads the observed columns of a row.
  __device__ void begin(const real* values, const unsigned char* observed, const int* offsets, int64 base, bool live,
                        int D, int shift, unsigned short* mask) {
    n_row_ = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + sub_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = __ballot_sync(EVERY_LANE, o) >> shift & 0xffffu;
      const int j = n_row_ + __popc(bits & ((1u << sub_) - 1));
      if (o) {
        places_[j] = d * stride_ * kBytes;
        residual_[j] = values[base + offsets[d]];
      }
      if (mask && live && sub_ == 0) mask[d0 / 16] = static_cast<unsigned short>(bits);
      n_row_ += __popc(bits);
    }
    n_most_ = max(n_row_, __shfl_xor_sync(EVERY_LANE, n_row_, 16));
    for (int j = n_row_ + sub_; j < kResidual; j += 16) {
      places_[j] = D * stride_ * kBytes;
      residual_[j] = 0;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      own_place_[i] = places_[sub_ + 16 * i];
      own_residual_[i] = residual_[sub_ + 16 * i];
    }
  }

  __device__ int n_observed() const { return n_row_; }

  // What is known of a feature: sum_d o_d (phi_kd^2 + v_kd), the value of z w, and the log odds to base 2.
  __device__ real& s(int k) const { return s_[k]; }
  __device__ real& x(int k) const { return x_[k]; }

  __device__ real logit(int k) const { return logits_[k]; }

  // Sixteen features come into view.
  __device__ void look_at(int tile) {
    const char* own = reinterpret_cast<const char*>(dictionary_ + 16 * tile + sub_);
    over_columns([&](int j) {
      const int4 place = *reinterpret_cast<const int4*>(places_ + j);
      phi_[j] = *reinterpret_cast<const real*>(own + place.x);
      phi_[j + 1] = *reinterpret_cast<const real*>(own + place.y);
      phi_[j + 2] = *reinterpret_cast<const real*>(own + place.z);
      phi_[j + 3] = *reinterpret_cast<const real*>(own + place.w);
    });
  }

  __device__ real squared() const {
    real sum = 0;
    over_columns([&](int j) {
#pragma unroll
      for (int i = j; i < j + 4; ++i) sum += phi_[i] * phi_[i];
    });
    return sum;
  }

  __device__ real correlation() const {
    real sum[2] = {};
    over_columns([&](int j) {
      const Four r = *reinterpret_cast<const Four*>(residual_ + j);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i % 2] += phi_[j + i] * r.number[i];
    });
    return sum[0] + sum[1];
  }

  // Feature k grows, which may be another one in every row.
  __device__ void change(int k, real change) {
    // All lanes have read what is now written.
    __syncwarp();
    const char* feature = reinterpret_cast<const char*>(dictionary_ + k);
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      if (16 * i >= kAlways && 16 * i >= n_most_) break;
      own_residual_[i] -= change * *reinterpret_cast<const real*>(feature + own_place_[i]);
      residual_[sub_ + 16 * i] = own_residual_[i];
    }
    __syncwarp();
  }

  // Calls f(column, residual) for this lane's share of the observed columns.
  template <class Visit>
  __device__ void visit(const Visit& f) const {
#pragma unroll
    for (int i = 0; i < kSlots; ++i)
      if (sub_ + 16 * i < n_row_) f(own_place_[i] / (stride_ * kBytes), own_residual_[i]);
  }

 private:
  static constexpr int kSlots = (OBSERVED + 16 - 1) / 16, kResidual = kSlots * 16, kBytes = sizeof(real);
  static constexpr int kPlaces = (kResidual * sizeof(int) + sizeof(real) - 1) / sizeof(real);

  // Half of the columns, or all, are looked at whether a row has so many or not, as one piece: reading runs ahead
  // there.
  static constexpr int kAlways = MOSTLY_OBSERVED ? OBSERVED : (OBSERVED / 2 + 3) / 4 * 4;

  // Calls f(j) for every four columns; j is known when this is compiled.
  template <class Visit>
  __device__ __forceinline__ void over_columns(const Visit& f) const {
#pragma unroll
    for (int j = 0; j < OBSERVED; j += 4) {
      if (j >= kAlways && j >= n_most_) break;
      f(j);
    }
  }

  const real* logits_;
  const real* dictionary_;
  real* s_;
  real* x_;
  real* residual_;
  int* places_;  // in bytes
  int sub_, stride_, n_row_ = 0, n_most_ = 0;
  int own_place_[kSlots];
  real own_residual_[kSlots];
  real phi_[OBSERVED];
};
