// A row with at most OBSERVED observed entries, for gibbs_rows.cu. The residual is divided between the lanes of the
// row, so that a change costs each of them only a few products, and it is in shared memory as well, where all lanes
// read it. A lane has the entries of its own feature at all observed columns in registers.
#pragma once

#include "common.cuh"

// The log odds to base 2 of a feature in a row at a correlation of zero, and the factor by which they grow with the
// squared correlation.
struct Odds {
  real prior, gain;
};

class Row {
 public:
  // The shared memory of a block holds the dictionary, column by column, and the constant parts of the log odds. An
  // additional column of zeros stands in for columns that are not observed.
  //
  // Feature k of column d is not number k of its column but number k ^ swizzle(d). This way the sixteen features of a
  // tile are in one half of the 32 banks, the lower or the upper one depending on whether d is even, and the entries of
  // one feature are spread over many banks. Each column begins at a multiple of a power of two, so an address is
  // computed with a single exclusive or of the column's address and the feature's offset.
  __device__ static int stride(int KP) { return 1 << (32 - __clz(KP - 1)); }
  __device__ static int swizzle(int d) { return d % 2 * 16 + d / 2 % 16; }
  __device__ static int block_numbers(int D, int KP) { return (D + 1) * stride(KP) + slack(KP) + KP; }
  // The shared memory of a row, counted in numbers like that of a block; gibbs_rows_shape in
  // backends/cuda/launch_shapes.py must agree with both. It is an odd multiple of sixteen numbers, so that the two rows
  // of a warp are in different banks.
  __device__ static int row_numbers(int KP) { return (2 * KP + kResidual + kAddressNumbers + 31) / 32 * 32 + 16; }

  __device__ Row(const real* block_memory, real* memory, int half_lane, int D, int KP)
      : logits_(shared_address(logits(block_memory, D, KP))),
        per_feature_(shared_address(memory)),
        dictionary_(dictionary_address(block_memory, KP)),
        residual_(memory + 2 * KP),
        addresses_(reinterpret_cast<unsigned*>(memory + 2 * KP + kResidual)),
        half_lane_(half_lane),
        stride_(stride(KP)) {}

  // Fills the memory of the block.
  __device__ static void fill(real* block_memory, const real* phi_rows, const real* logit2, real log_prior, int D,
                              int KP) {
    real* dictionary = block_memory + (dictionary_address(block_memory, KP) - shared_address(block_memory)) / kBytes;
    for (int k = threadIdx.x; k < KP; k += blockDim.x) {
      logits(block_memory, D, KP)[k] = logit2[k] + log_prior;
      dictionary[D * stride(KP) + (k ^ swizzle(D))] = 0;
    }
    for (int i = threadIdx.x; i < KP * D; i += blockDim.x)
      dictionary[i % D * stride(KP) + (i / D ^ swizzle(i % D))] = phi_rows[i];
  }

  // Reads the observed columns of a row.
  __device__ void begin(const real* values, const unsigned char* observed, const int* offsets, int64 base, bool live,
                        int D, int KP, int shift, unsigned short* mask) {
    for (int k = half_lane_; k < KP; k += 16) x(k) = 0;
    const auto address_of = [&](int d) { return dictionary_ + (d * stride_ + swizzle(d)) * kBytes; };
    int n[2] = {};  // even and odd columns
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + half_lane_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = __ballot_sync(EVERY_LANE, o) >> shift & 0xffffu;
      if (mask && live && half_lane_ == 0) mask[d0 / 16] = static_cast<unsigned short>(bits);
      n[0] += __popc(bits & 0x5555u);
      n[1] += __popc(bits & 0xaaaau);
    }
    n_observed_ = n[0] + n[1];
    // Places that are not used refer to the column of zeros.
    for (int j = half_lane_; j < kResidual; j += 16) {
      addresses_[j] = address_of(D);
      residual_[j] = 0;
    }
    __syncwarp();
    // The columns of a row are ordered so that even and odd ones alternate, as long as it has both; one row of a warp
    // begins with an even column and the other with an odd one. Then what the two rows read at the same time is in
    // different halves of the banks.
    const int half = max(kUnconditional, (n_observed_ + 3) / 4 * 4) / 2, odd = half_lane_ % 2,
              parity = odd ^ (shift != 0);
    int rank = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + half_lane_;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = __ballot_sync(EVERY_LANE, o) >> shift & (odd ? 0xaaaau : 0x5555u);
      const int i = rank + __popc(bits & ((1u << half_lane_) - 1));
      if (o) {
        const int j = i < half ? 2 * i + parity : 2 * ((odd ? n[0] : n[1]) + i - half) + 1 - parity;
        addresses_[j] = address_of(d);
        residual_[j] = values[base + offsets[d]];
      }
      rank += __popc(bits);
    }
    n_looped_ = 2 * max(half, __shfl_xor_sync(EVERY_LANE, half, 16));
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      own_addresses_[i] = addresses_[half_lane_ + 16 * i];
      own_residual_[i] = residual_[half_lane_ + 16 * i];
    }
  }

  __device__ int n_observed() const { return n_observed_; }

  // What a row keeps for each feature: x = z w, and the factor by which the log odds grow with the squared correlation.
  __device__ real& x(int k) const { return at_shared<real>(per_feature_ + (2 * k + 1) * kBytes); }
  __device__ real& gain(int k) const { return at_shared<real>(per_feature_ + 2 * k * kBytes); }
  __device__ Odds odds(int k) const {
    return {at_shared<real>(logits_ + k * kBytes) + real(0.5) * log_2(gain(k)), gain(k)};
  }

  // Selects the tile of sixteen features that the following calls refer to, and loads this lane's feature.
  __device__ void select_tile(int tile) {
    const unsigned own = (16 * tile + half_lane_) * kBytes;
    over_columns([&](int j) {
      const uint4 address = *reinterpret_cast<const uint4*>(addresses_ + j);
      phi_[j] = at_shared<const real>(address.x ^ own);
      phi_[j + 1] = at_shared<const real>(address.y ^ own);
      phi_[j + 2] = at_shared<const real>(address.z ^ own);
      phi_[j + 3] = at_shared<const real>(address.w ^ own);
    });
  }

  // The sum of phi^2 over the observed columns. Even and odd positions are summed separately and then added. The two
  // rows of a warp differ in which of them hold the even columns, and the addition makes that difference irrelevant.
  __device__ real squared() const {
    real sum[2] = {};
    over_columns([&](int j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i % 2] += phi_[j + i] * phi_[j + i];
    });
    return sum[0] + sum[1];
  }

  // The correlation of this lane's feature with the residual.
  __device__ real correlation() const {
    real sum[2] = {};
    over_columns([&](int j) {
      const Four r = *reinterpret_cast<const Four*>(residual_ + j);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i % 2] += phi_[j + i] * r.number[i];
    });
    return sum[0] + sum[1];
  }

  // Updates the residual after x_k has changed. k may differ between the two rows of a warp.
  __device__ void change(int k, real change) {
    // Wait until all lanes have read what is now overwritten.
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      if (16 * i >= kUnconditional && 16 * i >= n_looped_) break;
      own_residual_[i] -= change * at_shared<const real>(own_addresses_[i] ^ k * kBytes);
      residual_[half_lane_ + 16 * i] = own_residual_[i];
    }
    __syncwarp();
  }

  // Calls f(column, residual) for this lane's share of the observed columns.
  template <class Visit>
  __device__ void visit(int D, const Visit& f) const {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      const int d = (own_addresses_[i] - dictionary_) / (stride_ * kBytes);
      if (d < D) f(d, own_residual_[i]);
    }
  }

 private:
  static constexpr int kSlots = (OBSERVED + 16 - 1) / 16, kResidual = kSlots * 16;
  static constexpr unsigned kBytes = sizeof(real);
  static constexpr int kAddressNumbers = (kResidual * sizeof(int) + sizeof(real) - 1) / sizeof(real);

  // Columns must begin at multiples of their size. Shared memory itself begins at a multiple of 1024 bytes, so larger
  // columns may need some slack before the dictionary.
  __device__ static int slack(int KP) { return max(0, stride(KP) - 1024 / static_cast<int>(kBytes)); }
  __device__ static unsigned dictionary_address(const real* memory, int KP) {
    const unsigned column = stride(KP) * kBytes;
    return (shared_address(memory) + column - 1) / column * column;
  }
  template <class Number>
  __device__ static Number* logits(Number* block_memory, int D, int KP) {
    return block_memory + (D + 1) * stride(KP) + slack(KP);
  }

  // This many columns are processed whether a row has them or not: half of OBSERVED, or all of it if most rows have
  // nearly that many. Without conditions in between, the compiler can issue many loads ahead of their use.
  static constexpr int kUnconditional = MOSTLY_OBSERVED ? OBSERVED : (OBSERVED / 2 + 3) / 4 * 4;

  // Calls f(j) for every four columns; j is a constant at compile time.
  template <class Visit>
  __device__ __forceinline__ void over_columns(const Visit& f) const {
#pragma unroll
    for (int j = 0; j < OBSERVED; j += 4) {
      if (j >= kUnconditional && j >= n_looped_) break;
      f(j);
    }
  }

  unsigned logits_, per_feature_, dictionary_;  // addresses in shared memory
  real* residual_;
  unsigned* addresses_;  // the addresses of the observed columns
  int half_lane_, stride_, n_observed_ = 0, n_looped_ = 0;
  unsigned own_addresses_[kSlots];
  real own_residual_[kSlots];
  real phi_[OBSERVED];
};
