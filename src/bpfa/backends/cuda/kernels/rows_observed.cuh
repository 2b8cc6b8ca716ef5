// A row with missing entries and at most OBSERVED others, for gibbs_rows.cu: its residual is divided between its lanes,
// so that a change costs each of them few products, and a lane has the entries of its own feature at all columns.
#pragma once

#include "common.cuh"

// Of a feature in a row: its log odds to base 2 where the correlation is zero, and how they grow with its square.
struct Odds {
  real prior, gain;
};

class Row {
 public:
  // Numbers of shared memory: of a block, the dictionary, a column after another, and what log odds begin with. One
  // more column, of zeros, is where places point that are not observed. Feature k of column d is not the k-th number of
  // its column but the k ^ turn(d)-th: sixteen features of a tile are in one half of the banks, that of even columns
  // or the other, and the entries of a feature in many banks. Such places are added up by "exclusive or" where columns
  // begin at multiples of a power of two.
  __device__ static int stride(int KP) { return 1 << (32 - __clz(KP - 1)); }
  __device__ static int turn(int d) { return d % 2 * 16 + d / 2 % 16; }
  __device__ static int block_numbers(int D, int KP) { return (D + 1) * stride(KP) + slack(KP) + KP; }
  // Of a row; rows_shape_of in gpu/gibbs.py knows both. Rows that are looked at together begin in different banks.
  __device__ static int row_numbers(int KP) { return (2 * KP + kResidual + kPlaces + 31) / 32 * 32 + 16; }

  __device__ Row(const real* block_memory, real* memory, int sub, int D, int KP)
      : logits_(shared_address(logits(block_memory, D, KP))),
        known_(shared_address(memory)),
        dictionary_(aligned(block_memory, KP)),
        residual_(memory + 2 * KP),
        places_(reinterpret_cast<unsigned*>(memory + 2 * KP + kResidual)),
        sub_(sub),
        stride_(stride(KP)) {}

  __device__ static void fill(real* block_memory, const real* phi_rows, const real* logit2, real log_prior, int D,
                              int KP) {
    real* dictionary = block_memory + (aligned(block_memory, KP) - shared_address(block_memory)) / kBytes;
    for (int k = threadIdx.x; k < KP; k += blockDim.x) {
      logits(block_memory, D, KP)[k] = logit2[k] + log_prior;
      dictionary[D * stride(KP) + (k ^ turn(D))] = 0;
    }
    for (int i = threadIdx.x; i < KP * D; i += blockDim.x)
      dictionary[i % D * stride(KP) + (i / D ^ turn(i % D))] = phi_rows[i];
  }

  // Reads the observed columns of a row.
  __device__ void begin(const real* values, const unsigned char* observed, const int* offsets, int64 base, bool live,
                        int D, int KP, int shift, unsigned short* mask) {
    for (int k = sub_; k < KP; k += 16) x(k) = 0;
    const auto place_of = [&](int d) { return dictionary_ + (d * stride_ + turn(d)) * kBytes; };
    int n[2] = {};  // even and odd columns
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + sub_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = __ballot_sync(EVERY_LANE, o) >> shift & 0xffffu;
      if (mask && live && sub_ == 0) mask[d0 / 16] = static_cast<unsigned short>(bits);
      n[0] += __popc(bits & 0x5555u);
      n[1] += __popc(bits & 0xaaaau);
    }
    n_row_ = n[0] + n[1];
    for (int j = sub_; j < kResidual; j += 16) {
      places_[j] = place_of(D);
      residual_[j] = 0;
    }
    __syncwarp();
    // One row of a warp begins with an even column and the other with an odd one, and so on in turns, as long as it
    // has both: then what they read is in different halves of the banks.
    const int half = max(kAlways, (n_row_ + 3) / 4 * 4) / 2, odd = sub_ % 2, parity = odd ^ (shift != 0);
    int rank = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + sub_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = __ballot_sync(EVERY_LANE, o) >> shift & (odd ? 0xaaaau : 0x5555u);
      const int i = rank + __popc(bits & ((1u << sub_) - 1));
      if (o) {
        const int j = i < half ? 2 * i + parity : 2 * ((odd ? n[0] : n[1]) + i - half) + 1 - parity;
        places_[j] = place_of(d);
        residual_[j] = values[base + offsets[d]];
      }
      rank += __popc(bits);
    }
    n_most_ = 2 * max(half, __shfl_xor_sync(EVERY_LANE, half, 16));
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      own_place_[i] = places_[sub_ + 16 * i];
      own_residual_[i] = residual_[sub_ + 16 * i];
    }
  }

  __device__ int n_observed() const { return n_row_; }

  // What a row knows of a feature: the value of z w, and how its log odds depend on its correlation.
  __device__ real& x(int k) const { return at_shared<real>(known_ + (2 * k + 1) * kBytes); }
  __device__ real& gain(int k) const { return at_shared<real>(known_ + 2 * k * kBytes); }
  __device__ Odds odds(int k) const {
    return {at_shared<real>(logits_ + k * kBytes) + real(0.5) * log_2(gain(k)), gain(k)};
  }

  // Sixteen features come into view.
  __device__ void look_at(int tile) {
    const unsigned own = (16 * tile + sub_) * kBytes;
    over_columns([&](int j) {
      const uint4 place = *reinterpret_cast<const uint4*>(places_ + j);
      phi_[j] = at_shared<const real>(place.x ^ own);
      phi_[j + 1] = at_shared<const real>(place.y ^ own);
      phi_[j + 2] = at_shared<const real>(place.z ^ own);
      phi_[j + 3] = at_shared<const real>(place.w ^ own);
    });
  }

  // Sums are of even columns and of odd ones, then of the two: the same in either row of a warp.
  __device__ real squared() const {
    real sum[2] = {};
    over_columns([&](int j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i % 2] += phi_[j + i] * phi_[j + i];
    });
    return sum[0] + sum[1];
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
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      if (16 * i >= kAlways && 16 * i >= n_most_) break;
      own_residual_[i] -= change * at_shared<const real>(own_place_[i] ^ k * kBytes);
      residual_[sub_ + 16 * i] = own_residual_[i];
    }
    __syncwarp();
  }

  // Calls f(column, residual) for this lane's share of the observed columns.
  template <class Visit>
  __device__ void visit(int D, const Visit& f) const {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      const int d = (own_place_[i] - dictionary_) / (stride_ * kBytes);
      if (d < D) f(d, own_residual_[i]);
    }
  }

 private:
  static constexpr int kSlots = (OBSERVED + 16 - 1) / 16, kResidual = kSlots * 16;
  static constexpr unsigned kBytes = sizeof(real);
  static constexpr int kPlaces = (kResidual * sizeof(int) + sizeof(real) - 1) / sizeof(real);

  // Shared memory begins at a multiple of 1024 bytes, and the dictionary at one of what a column takes.
  __device__ static int slack(int KP) { return max(0, stride(KP) - 1024 / static_cast<int>(kBytes)); }
  __device__ static unsigned aligned(const real* memory, int KP) {
    const unsigned column = stride(KP) * kBytes;
    return (shared_address(memory) + column - 1) / column * column;
  }
  template <class Number>
  __device__ static Number* logits(Number* block_memory, int D, int KP) {
    return block_memory + (D + 1) * stride(KP) + slack(KP);
  }

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

  unsigned logits_, known_, dictionary_;  // addresses in shared memory
  real* residual_;
  unsigned* places_;  // of addresses
  int sub_, stride_, n_row_ = 0, n_most_ = 0;
  unsigned own_place_[kSlots];
  real own_residual_[kSlots];
  real phi_[OBSERVED];
};
