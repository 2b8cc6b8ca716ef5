// Gibbs sampling (docs/math.md section 4) as in gibbs.cu, with z and w drawn together, for rows and dictionaries that
// are small enough for registers and shared memory. Half a warp works on one row, and its lanes look at sixteen
// features at a time. The decisions of all sixteen are computed at once, and computed again only after one of the
// features has changed.
//
// Variants, selected by macro: MISSING = 1 for rows with missing entries, with OBSERVED (the most observed columns that
// a row may have) and MOSTLY_OBSERVED (most rows have nearly that many); MISSING = 0 for complete rows, with
// FEATURE_TILES (the number of tiles of sixteen features, a multiple of four). For both: VARIANCE (phi is uncertain);
// THREADS, the most threads of a block; REAL.
#include "common.cuh"
#include "tiles.cuh"

#ifndef MISSING
#define MISSING 1
#endif
#ifndef OBSERVED
#define OBSERVED 32
#endif
#ifndef MOSTLY_OBSERVED
#define MOSTLY_OBSERVED 0
#endif
#ifndef FEATURE_TILES
#define FEATURE_TILES 16
#endif
#ifndef VARIANCE
#define VARIANCE 0
#endif
#ifndef THREADS
#define THREADS 512
#endif

// Four numbers that are read or written at once.
struct alignas(4 * sizeof(real)) Four {
  real number[4];
};

#if MISSING
#include "rows_observed.cuh"
#else
#include "rows_complete.cuh"
#endif

extern "C" __global__ void __launch_bounds__(THREADS) gibbs_rows(
    // The arguments are those of gibbs.cu, except that phi_tiles is not used and that the Gram matrix is in the order
    // that rows_complete.cuh describes.
    const real* values, const unsigned char* observed, const int64* ids, const int64* bases, const int* offsets,
    int64 n_rows, int K, int D, const real* phi_tiles, const real* v_tiles, const real* phi_rows, const real* gram,
    const real* phi2_all, const real* s_all, const real* logit2, const double* precisions, const real* dense,
    const real* correlations, unsigned key0, unsigned key1, unsigned step, const StepOnDevice* stored, int first_sweep,
    int burn_in, int n_samples, const real* start_z, const real* start_w, int* counts, Entry* entries, real* residuals,
    unsigned short* masks, double* squares, int* n_observed, real* posterior, real* state,
    // For complete rows only: how many rows of the Gram matrix are kept in shared memory.
    int n_resident) {
  extern __shared__ double shared[];
  real* memory = reinterpret_cast<real*>(shared);
  // half_lane is the number of a lane within its half of the warp. shift is where the bits of that half begin in a
  // ballot over the warp.
  const int lane = threadIdx.x % 32, half_lane = lane % 16, shift = lane - half_lane;
  const int slot = threadIdx.x / 16;
  const int n_tiles = (K + 15) / 16, KP = (K + 63) / 64 * 64;
  const real g_o = static_cast<real>(precisions[0]), g_w = static_cast<real>(precisions[1]);
  // The log odds to base 2 grow by half_g_o2 times the variance of w times the squared correlation.
  const real half_g_o = static_cast<real>(0.5 * LOG2_E) * g_o, half_g_o2 = half_g_o * g_o;
  const real inverse_half_g_o2 = 1 / half_g_o2;
#if MISSING
  // With gain = half_g_o2 / kappa, the term (log g_w - log kappa) / 2 of the log odds is, to base 2, log_prior +
  // log2(gain) / 2. log_prior is the same for all features.
  const real log_prior = real(0.5) * log_2(g_w * inverse_half_g_o2);
  real* rows_memory = memory + Row::block_numbers(D, KP);
  const int row_numbers = Row::row_numbers(KP);
  Row::fill(memory, phi_rows, logit2, log_prior, D, KP);
  Row this_row(memory, rows_memory + slot * row_numbers, half_lane, D, KP);
#else
  real* rows_memory = memory + Row::block_numbers(n_resident);
  const int row_numbers = Row::row_numbers();
  Row::fill(memory, reinterpret_cast<int*>(rows_memory), n_resident, gram, phi2_all, s_all, logit2, g_o, g_w,
            half_g_o2);
  Row this_row(memory, rows_memory + slot * row_numbers, gram, half_lane);
#endif
  // Some rows take longer than others, so a warp takes the next two rows as soon as it is done with the last two. The
  // counter is in the last number of the first row's memory, which is padding.
  int* next_turn = reinterpret_cast<int*>(rows_memory + row_numbers - 1);
  if (slot == 0) *next_turn = 0;
  __syncthreads();

  for (;;) {
    int turn = 0;
    if (lane == 0) turn = atomicAdd(next_turn, 1);
    turn = __shfl_sync(EVERY_LANE, turn, 0);
    const int64 row = 2 * (static_cast<int64>(turn) * gridDim.x + blockIdx.x) + slot % 2;
    if (row - slot % 2 >= n_rows) break;
    // Whether there is a row for this half of the warp; the last warp may have only one.
    const bool live = row < n_rows;
    [[maybe_unused]] const unsigned live_lanes = __ballot_sync(EVERY_LANE, live);
    const int64 id = live ? ids[row] : 0;
    __syncwarp();
#if MISSING
    const int64 base = bases ? bases[id] : row * D;
    this_row.begin(values, observed, offsets, base, live, D, KP, shift,
                   masks ? masks + row * ((D + 15) / 16) : nullptr);
#else
    this_row.begin(correlations + row * KP, live);
#endif
    if (start_z) {
      // The contribution of the starting values is subtracted, one feature after another.
      for (int k = 0; k < K; ++k) {
        const real start_x = live ? start_z[row * K + k] * start_w[row * K + k] : real(0);
        if (half_lane == k % 16) this_row.x(k) = start_x;
#if MISSING
        if (__any_sync(EVERY_LANE, start_x != 0)) this_row.change(k, start_x);
#else
        if (__any_sync(EVERY_LANE, start_x != 0)) this_row.change(k, start_x, Row::gram_row(this_row.odds(k)));
#endif
      }
    }

    double row_squares = 0;
    for (int sweep = 0; sweep < burn_in + n_samples; ++sweep) {
#pragma unroll 1
      for (int group = 0; group < KP / 64; ++group) {
        uint4 uniforms =
            row_words(UNIFORM, first_sweep + sweep, id, step_of(stored, step), group, half_lane, key0, key1);
        uint4 normals;
        // Normal numbers are computed only if a feature of this group is on or was on.
        bool normals_known = false;
#pragma unroll 1
        for (int part = 0; part < 4; ++part) {
          const int tile = 4 * group + part, k = 16 * tile + half_lane;
          if (tile >= n_tiles) break;
          this_row.select_tile(tile);
#if MISSING
          if (sweep == 0) {
            real s = this_row.squared();
#if VARIANCE
            const real* v_tile = v_tiles + static_cast<int64>(tile) * Tiles::tile_size(D) + half_lane;
            if (live)
              for (int d = 0; d < D; ++d)
                if (observed[base + offsets[d]]) s += v_tile[d * TILE_STRIDE];
#endif
            this_row.gain(k) = half_g_o2 / (g_w + g_o * s);
          }
#endif
          real x = this_row.x(k), correlation = this_row.correlation();
          const unsigned word = uniforms.x;
          uniforms = make_uint4(uniforms.y, uniforms.z, uniforms.w, 0);
          const Odds odds = this_row.odds(k);
          const bool was_on = x != 0;
          // z = 1 if u < sigmoid(log odds), that is if u / (1 - u) is less than the odds. This first test is exact for
          // features that are off, as x = 0 there; features that are on are visited anyway.
          const real u = static_cast<real>(word) + real(0.5), rest = static_cast<real>(~word) + real(0.5);
          const bool may_change = was_on | (u < rest * power_of_2(odds.prior + odds.gain * correlation * correlation));
          unsigned pending = __ballot_sync(EVERY_LANE, may_change);
          if (pending == 0) continue;
          if (!normals_known) {
            normals = row_words(NORMAL, first_sweep + sweep, id, step_of(stored, step), group, half_lane, key0, key1);
            normals_known = true;
          }
          const real variance = odds.gain * inverse_half_g_o2;
#if MISSING
          // Without variance, phi2 is recovered from kappa = g_w + g_o phi2 instead of being stored. The rounding error
          // that this makes in phi2 is no larger than the one that kappa has already.
          const real phi2 = VARIANCE ? this_row.squared() : half_g_o / odds.gain - g_w / g_o;
#else
          const real phi2 = odds.phi2;
          const unsigned own_gram_row = Row::gram_row(odds);
#endif
          const real noise = normal_of_word(word_of(normals, part), real()) * root(variance);
          // By how much c has to raise the log odds. The logarithms are taken only here, for features that are going to
          // be decided repeatedly.
          const real needed = log_2(u) - log_2(rest) - odds.prior;
          real c;
          bool on;
          const auto decide = [&] {
            c = correlation + x * phi2;
            on = odds.gain * c * c > needed;
          };
          decide();
          do {
            const unsigned row_pending = pending >> shift & 0xffffu;
            const int first_lane = row_pending ? __ffs(row_pending) - 1 : 0;
            // The weight of a feature that is on must not be zero.
            const real drawn = on ? g_o * variance * c + noise + smallest(noise) : real(0);
            real change = __shfl_sync(EVERY_LANE, drawn - x, first_lane, 16);
            if (!row_pending) change = 0;
            if (row_pending && half_lane == first_lane) x = drawn;
#if MISSING
            this_row.change(16 * tile + first_lane, change);
#else
            const unsigned gram_row = __shfl_sync(EVERY_LANE, own_gram_row, first_lane, 16);
            this_row.change(16 * tile + first_lane, change, row_pending ? gram_row : this_row.any_gram_row());
#endif
            correlation = this_row.correlation();
            decide();
            pending = __ballot_sync(EVERY_LANE, row_pending && (on || was_on) && half_lane > first_lane);
          } while (pending);
          this_row.x(k) = x;
        }
      }
      __syncwarp();

      if (sweep < burn_in) continue;
      const int64 at = (sweep - burn_in) * n_rows + row;
      int count = 0;
      if (counts) {
        Entry* list = entries + at * K;
#pragma unroll 1
        for (int tile = 0; tile < n_tiles; ++tile) {
          const int k = 16 * tile + half_lane;
          const real x = this_row.x(k);
          const unsigned on = __ballot_sync(EVERY_LANE, x != 0);
          if (on == 0) continue;
          const unsigned bits = on >> shift & 0xffffu;
          if (x != 0 && live) list[count + __popc(bits & ((1u << half_lane) - 1))] = {k, x};
          count += __popc(bits);
        }
        if (live && half_lane == 0) counts[at] = count;
      }
      if (posterior && live) {
        for (int k = half_lane; k < K; k += 16) {
          const real x = this_row.x(k);
          real* to = posterior + row * K + k;
          to[0] += x != 0 ? 1 : 0;
          to[n_rows * K] += x;
          to[2 * n_rows * K] += x * x;
        }
      }
      __syncwarp();
      if (!squares || !live) continue;
      real sample_squares = 0;
#if MISSING
      // Residuals must be zero at missing entries, because the sums are computed as products of whole matrices.
      for (int d = half_lane; d < D; d += 16) residuals[at * D + d] = 0;
      __syncwarp(live_lanes);
      this_row.visit(D, [&](int d, real r) {
        sample_squares += r * r;
        residuals[at * D + d] = r;
      });
#else
      const Entry* list = entries + at * K;
      const auto residual = [&](auto columns) {
        for (int d = columns.first(half_lane); d < D; d += 64) {
          Four r = columns.read(dense + row * D, d, D);
          for (int e = 0; e < count; ++e) {
            const Four phi = columns.read(phi_rows + list[e].feature * D, d, D);
#pragma unroll
            for (int i = 0; i < 4; ++i) r.number[i] -= list[e].weight * phi.number[i];
          }
          sample_squares += columns.write(residuals + at * D, d, D, r);
        }
      };
      if (D % 4 == 0)
        residual(AdjacentColumns());
      else
        residual(StridedColumns());
#endif
      row_squares += sample_squares;
    }
    __syncwarp();
    if (squares) {
      row_squares = lane_sum<16>(row_squares);
      if (live && half_lane == 0) squares[row] = row_squares;
#if MISSING
      if (live && half_lane == 0) n_observed[row] = this_row.n_observed();
#endif
    }
    if (state && live) {
      for (int k = half_lane; k < K; k += 16) {
        const real x = this_row.x(k);
        state[row * K + k] = x != 0 ? 1 : 0;
        state[(n_rows + row) * K + k] = x;
      }
    }
  }
}
