// Gibbs sampling (docs/math.md section 4). Half a warp works on one row, and its lanes look at sixteen features at a
// time. The decisions of all sixteen are computed at once, and computed again only after one of the features has
// changed.
//
// Variants, selected by macro: MISSING = 1 for rows with missing entries, with OBSERVED (the most observed columns that
// a row may have, which are then kept in registers, or 0 for any number) and TILES (see tiles.cuh); MISSING = 0 for
// complete rows, with GROUPS (see complete_row.cuh). For both: ROW_LANES (see common.cuh); TWO_STEP (z is drawn given
// w); VARIANCE (phi is uncertain); THREADS, the most threads of a block; REAL.
#include "common.cuh"
#include "tiles.cuh"

#ifndef MISSING
#define MISSING 1
#endif
#ifndef OBSERVED
#define OBSERVED 0
#endif
#ifndef GROUPS
#define GROUPS 0
#endif
#ifndef TWO_STEP
#define TWO_STEP 0
#endif
#ifndef VARIANCE
#define VARIANCE 0
#endif
#ifndef THREADS
#define THREADS 1024
#endif

#if !MISSING
#include "complete_row.cuh"
#elif OBSERVED
#include "observed_registers.cuh"
#else
#include "observed_list.cuh"
#endif

// The loop over the tiles of a group is unrolled only if it indexes registers, because the kernel has to fit into the
// instruction cache.
constexpr int kUnrolledParts = GROUPS ? 4 : 1;

extern "C" __global__ void __launch_bounds__(THREADS) gibbs(
    // The rows: entry d of row i is at bases[ids[i]] + offsets[d], or at i D + offsets[d] if bases is null.
    const real* values, const unsigned char* observed, const int64* ids, const int64* bases, const int* offsets,
    int64 n_rows, int K, int D,
    // The view: phi and its variance in tiles; phi as features x columns; the Gram matrix in the order that
    // complete_row.cuh describes; the sums of phi^2 and of phi^2 + v over all columns; log odds to base 2; g_o and g_w.
    const real* phi_tiles, const real* v_tiles, const real* phi_rows, const real* gram, const real* phi2_all,
    const real* s_all, const real* logit2, const double* precisions,
    // For complete rows only: the rows as a dense matrix, and their correlations with the features.
    const real* dense, const real* correlations,
    // The chain.
    unsigned key0, unsigned key1, unsigned step, const StepOnDevice* stored, int first_sweep, int burn_in,
    int n_samples, const real* start_z, const real* start_w,
    // The results; each pointer may be null.
    int* counts, Entry* entries, real* residuals, unsigned short* masks, double* squares, int* n_observed,
    real* posterior, real* state) {
  extern __shared__ double shared[];
  // half_lane is the number of a lane within its half of the warp. half is 0 in the first half and 16 in the second.
  const int lane = threadIdx.x & 31, half_lane = lane & 15, half = lane & 16;
  // If a whole warp works on a row, both of its halves have the same values, and only the first half writes them.
  // `shift` is where the bits of this row's lanes begin in a ballot over the warp.
  const bool writes = ROW_LANES == 16 || half == 0;
  const int shift = ROW_LANES == 16 ? half : 0;
  const int slot = threadIdx.x / ROW_LANES, n_slots = blockDim.x / ROW_LANES;
  const int n_tiles = (K + 15) / 16, KP = (K + 63) / 64 * 64;
  const real g_o = static_cast<real>(precisions[0]), g_w = static_cast<real>(precisions[1]);
  const real inverse_g_w = 1 / g_w, idle_sd = root(inverse_g_w);
  [[maybe_unused]] const real half_g_o2 = static_cast<real>(0.5 * LOG2_E) * g_o * g_o;

  // Shared memory holds the tiles, and then what each row needs. The memory of a row is an odd multiple of sixteen
  // numbers, so that the two rows of a warp are in different banks.
  real* memory = reinterpret_cast<real*>(shared);
#if MISSING
  Tiles tiles(phi_tiles, memory, n_tiles, D);
  memory += (TILES == TILES_RESIDENT ? n_tiles : TILES == TILES_STREAMED ? 2 : 0) * Tiles::tile_size(D);
  const int planes = 2 + VARIANCE + TWO_STEP, own_numbers = (Row::numbers(D) + 3) / 4 * 4;
#else
  const int planes = 1 + TWO_STEP, own_numbers = Row::numbers(KP);
#endif
  real* x = memory + slot * ((planes * KP + own_numbers + 31) / 32 * 32 + 16);
#if MISSING
  // The sums of phi^2 + v and of phi^2 over the observed columns of this row.
  real* s_observed = x + KP;
  real* phi2_observed = VARIANCE ? x + 2 * KP : s_observed;
  Row this_row(x + planes * KP, half_lane, half);
#else
  Row this_row(x + planes * KP, half_lane, gram, KP);
#endif
#if TWO_STEP
  real* w = x + (planes - 1) * KP;
#endif

  for (int64 first = static_cast<int64>(blockIdx.x) * n_slots; first < n_rows;
       first += static_cast<int64>(gridDim.x) * n_slots) {
    const int64 row = first + slot;
    // Whether there is a row for these lanes; the last rows may not fill a block.
    const bool live = row < n_rows;
    [[maybe_unused]] const unsigned live_lanes = __ballot_sync(EVERY_LANE, live);
    const int64 id = live ? ids[row] : 0;
    __syncwarp();

#if MISSING
    this_row.begin(values, observed, offsets, bases ? bases[id] : row * D, live, D,
                   masks ? masks + row * ((D + 15) / 16) : nullptr, x);
    for (int b = 0; b < n_tiles; ++b) {
      this_row.select_tile(tiles.get(b));
      const int k = 16 * b + half_lane;
      const real phi2 = this_row.sum([](real phi, real) { return phi * phi; });
      real start_x = 0;
      if (start_z && live && k < K) start_x = start_z[row * K + k] * start_w[row * K + k];
#if VARIANCE
      real s = phi2;
      const real* v_tile = v_tiles + static_cast<int64>(b) * Tiles::tile_size(D);
      if (live)
        for (int d = 0; d < D; ++d)
          if (observed[(bases ? bases[id] : row * D) + offsets[d]]) s += v_tile[d * TILE_STRIDE + half_lane];
      s_observed[k] = s;
#endif
      phi2_observed[k] = phi2;
      x[k] = start_x;
      // The contribution of the starting values is subtracted from the residual, one feature after another.
      if (start_z) {
        unsigned on = __ballot_sync(EVERY_LANE, start_x != 0);
        for (on = (on | on >> 16) & 0xffffu; on; on &= on - 1) {
          const int lane_on = __ffs(on) - 1;
          this_row.change(lane_on, __shfl_sync(EVERY_LANE, start_x, lane_on, 16), 0);
        }
      }
    }
#else
    this_row.begin(correlations + row * KP, live);
    for (int k = half_lane; k < KP; k += 16) x[k] = 0;
    __syncwarp();
    if (start_z) {
      for (int k = 0; k < K; ++k) {
        const real start_x = live ? start_z[row * K + k] * start_w[row * K + k] : 0;
        if (__ballot_sync(EVERY_LANE, start_x != 0) == 0) continue;
        this_row.change(k, start_x, 0);
        if (half_lane == 0) x[k] = start_x;
      }
    }
#endif
#if TWO_STEP
    // The odds of z are conditional on w, so features that are off need a w too. At the start of a chain it is drawn
    // from its prior; a chain that is continued brings it along.
    for (int g = 0; g < KP / 64; ++g) {
      const uint4 words = row_words(NORMAL, 0, id, step_of(stored, step), g, half_lane, key0, key1);
      for (int j = 0; j < 4; ++j) {
        const int k = 64 * g + 16 * j + half_lane;
        const bool known = start_z && live && k < K && (start_z[row * K + k] != 0 || first_sweep > 1);
        w[k] = known ? start_w[row * K + k] : normal_of_word(word_of(words, j), real()) * idle_sd;
      }
    }
#endif
    __syncwarp();

    double row_squares = 0;
    for (int sweep = 0; sweep < burn_in + n_samples; ++sweep) {
#pragma unroll 1
      for (int g = 0; g < KP / 64; ++g) {
        uint4 uniforms = row_words(UNIFORM, first_sweep + sweep, id, step_of(stored, step), g, half_lane, key0, key1);
        uint4 normals = row_words(NORMAL, first_sweep + sweep, id, step_of(stored, step), g, half_lane, key0, key1);
#pragma unroll kUnrolledParts
        for (int part = 0; part < 4; ++part) {
          const int b = 4 * g + part, k = 16 * b + half_lane;
          if (b >= n_tiles) break;
          const unsigned word = uniforms.x, normal_word = normals.x;
          uniforms = make_uint4(uniforms.y, uniforms.z, uniforms.w, 0);
          normals = make_uint4(normals.y, normals.z, normals.w, 0);
          // The uniform number and one minus it, both times 2^32.
          const real u = static_cast<real>(word) + real(0.5), not_u = static_cast<real>(~word) + real(0.5);
          real x_k = x[k];
          const bool was_on = x_k != 0;
#if MISSING
          this_row.select_tile(tiles.get(b));
          const real s = s_observed[k], phi2 = VARIANCE ? phi2_observed[k] : s;
          real correlation = this_row.correlation();
#else
          const real s = s_all[k], phi2 = phi2_all[k];
          real correlation = this_row.correlation(b, part);
#endif
          const real kappa = g_w + g_o * s, variance = 1 / kappa;
#if TWO_STEP
          const real w_k = w[k], odds = logit2[k];
#else
          const real odds = logit2[k] - real(0.5) * log_2(kappa * inverse_g_w), gain = half_g_o2 * variance;
#endif
          real c;
          bool on;
          // z = 1 if u < sigmoid(log odds), that is if exp(-log odds) u < 1 - u.
          const auto decide = [&] {
            c = correlation + x_k * phi2;
#if TWO_STEP
            const real log_odds = odds + static_cast<real>(LOG2_E) * g_o * (w_k * c - real(0.5) * w_k * w_k * s);
#else
            const real log_odds = odds + gain * c * c;
#endif
            on = power_of_2(-log_odds) * u < not_u;
          };
          decide();
          // Features that are on, or were, are visited in order; the two rows of a warp proceed together.
          int last_visited = -1;
          unsigned pending = __ballot_sync(EVERY_LANE, on || was_on);
          real normal = 0;
          if (TWO_STEP || pending) normal = normal_of_word(normal_word, real());
          __syncwarp();
          while (pending) {
            const unsigned row_pending = (pending >> shift) & 0xffffu;
            const int first_lane = row_pending ? __ffs(row_pending) - 1 : 0;
            real drawn = on ? g_o * c * variance + normal * root(variance) : real(0);
            if (on && drawn == 0) drawn = smallest(drawn);
            real change = __shfl_sync(EVERY_LANE, drawn - x_k, first_lane, 16);
            if (!row_pending) change = 0;
            if (row_pending && half_lane == first_lane) {
              x_k = drawn;
              if (writes) x[k] = drawn;
            }
            if (row_pending) last_visited = first_lane;
#if MISSING
            correlation = this_row.change(first_lane, change, correlation);
#else
            this_row.change(16 * b + first_lane, change, g);
            correlation = this_row.correlation(b, part);
#endif
            decide();
            pending = __ballot_sync(EVERY_LANE, (on || was_on) && half_lane > last_visited);
          }
#if TWO_STEP
          w[k] = x_k != 0 ? x_k : normal * idle_sd;
#endif
        }
#if !MISSING
        this_row.next_group();
#endif
      }
      __syncwarp();

      if (sweep < burn_in) continue;
      const int64 at = (sweep - burn_in) * n_rows + row;
      int count = 0;
      for (int b = 0; b < n_tiles; ++b) {
        const int k = 16 * b + half_lane;
        const real x_k = x[k];
        const bool on = x_k != 0;
        const unsigned bits = (__ballot_sync(EVERY_LANE, on) >> shift) & 0xffffu;
        if (entries && live && writes && on)
          entries[at * K + count + __popc(bits & ((1u << half_lane) - 1))] = {k, x_k};
        count += __popc(bits);
        if (posterior && live && writes && k < K) {
          real* to = posterior + row * K + k;
          to[0] += on ? 1 : 0;
          to[n_rows * K] += x_k;
          to[2 * n_rows * K] += x_k * x_k;
        }
      }
      if (counts && live && writes && half_lane == 0) counts[at] = count;
      __syncwarp();
      if (!squares || !live) continue;
#if MISSING
      // Residuals must be zero at missing entries, because the sums are computed as products of whole matrices.
      for (int d = half_lane; residuals && writes && d < D; d += 16) residuals[at * D + d] = 0;
      __syncwarp(live_lanes);
      this_row.visit([&](int d, real r) {
        row_squares += static_cast<double>(r) * r;
        if (residuals) residuals[at * D + d] = r;
      });
#else
      for (int d = half_lane; d < D; d += 16) {
        real r = dense[row * D + d];
        for (int e = 0; e < count; ++e) {
          const Entry entry = entries[at * K + e];
          r -= entry.weight * phi_rows[static_cast<int64>(entry.feature) * D + d];
        }
        row_squares += static_cast<double>(r) * r;
        if (residuals) residuals[at * D + d] = r;
      }
#endif
    }
    __syncwarp();
    if (squares) {
      row_squares = lane_sum<ROW_LANES>(row_squares);
      if (live && writes && half_lane == 0) squares[row] = row_squares;
#if MISSING
      if (live && writes && half_lane == 0) n_observed[row] = this_row.n_observed();
#endif
    }
    if (state && live && writes) {
      for (int k = half_lane; k < K; k += 16) {
        state[row * K + k] = x[k] != 0 ? 1 : 0;
#if TWO_STEP
        state[(n_rows + row) * K + k] = w[k];
#else
        state[(n_rows + row) * K + k] = x[k];
#endif
      }
    }
  }
#if MISSING
  tiles.finish();
#endif
}
