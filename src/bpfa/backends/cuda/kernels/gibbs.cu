// Gibbs sampling (docs/math.md section 4): half a warp a row, its lanes sixteen features that are judged at once, and
// judged again only after one of them has changed.
//
// Variants, by macro: MISSING with OBSERVED (the most observed columns of a row, or 0 for any number) and TILES, or
// complete with GROUPS; ROW_LANES; TWO_STEP; VARIANCE (phi is uncertain); THREADS of a block; REAL.
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

// Unrolled only where registers need it: the kernel has to fit the instruction cache.
constexpr int kUnrolledParts = GROUPS ? 4 : 1;

extern "C" __global__ void __launch_bounds__(THREADS) gibbs(
    // rows: entry d of row i is at bases[ids[i]] + offsets[d], or at i D + offsets[d] without bases
    const real* values, const unsigned char* observed, const int64* ids, const int64* bases, const int* offsets,
    int64 n_rows, int K, int D,
    // view: tiles of phi and of its variance; features x columns; Gram matrix, as complete_row.cuh has it; sums over
    // all columns of phi^2 and phi^2 + v; log odds to base 2; precisions
    const real* phi_tiles, const real* v_tiles, const real* phi_rows, const real* gram, const real* phi2_all,
    const real* s_all, const real* logit2, const double* precisions,
    // complete rows: the rows themselves, and their correlations with the features
    const real* dense, const real* correlations,
    // chain
    unsigned key0, unsigned key1, unsigned step, const Moment* moment, int first_sweep, int burn_in, int n_samples,
    const real* start_z, const real* start_w,
    // results, each of which may be absent
    int* counts, Entry* entries, real* residuals, unsigned short* masks, double* squares, int* n_observed,
    real* posterior, real* state) {
  extern __shared__ double shared[];
  const int lane = threadIdx.x & 31, sub = lane & 15, half = lane & 16;
  // Of the lanes that know the same of a row, the first ones write it down; their bits in a ballot.
  const bool writes = ROW_LANES == 16 || half == 0;
  const int shift = ROW_LANES == 16 ? half : 0;
  const int slot = threadIdx.x / ROW_LANES, n_slots = blockDim.x / ROW_LANES;
  const int n_tiles = (K + 15) / 16, KP = (K + 63) / 64 * 64;
  const real g_o = static_cast<real>(precisions[0]), g_w = static_cast<real>(precisions[1]);
  const real inverse_g_w = 1 / g_w, idle_sd = root(inverse_g_w);
  [[maybe_unused]] const real half_g_o2 = static_cast<real>(0.5 * LOG2_E) * g_o * g_o;

  // Shared memory: tiles, then what each row needs. The two rows of a warp are in different banks.
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
  real* s_seen = x + KP;
  real* phi2_seen = VARIANCE ? x + 2 * KP : s_seen;
  Row own(x + planes * KP, sub, half);
#else
  Row own(x + planes * KP, sub, gram, KP);
#endif
#if TWO_STEP
  real* w = x + (planes - 1) * KP;
#endif

  for (int64 first = static_cast<int64>(blockIdx.x) * n_slots; first < n_rows;
       first += static_cast<int64>(gridDim.x) * n_slots) {
    const int64 row = first + slot;
    const bool live = row < n_rows;
    [[maybe_unused]] const unsigned live_lanes = __ballot_sync(EVERY_LANE, live);
    const int64 id = live ? ids[row] : 0;
    __syncwarp();

#if MISSING
    own.begin(values, observed, offsets, bases ? bases[id] : row * D, live, D,
              masks ? masks + row * ((D + 15) / 16) : nullptr, x);
    for (int b = 0; b < n_tiles; ++b) {
      own.look_at(tiles.get(b));
      const int k = 16 * b + sub;
      const real phi2 = own.sum([](real phi, real) { return phi * phi; });
      real started = 0;
      if (start_z && live && k < K) started = start_z[row * K + k] * start_w[row * K + k];
#if VARIANCE
      real s = phi2;
      const real* v_tile = v_tiles + static_cast<int64>(b) * Tiles::tile_size(D);
      if (live)
        for (int d = 0; d < D; ++d)
          if (observed[(bases ? bases[id] : row * D) + offsets[d]]) s += v_tile[d * TILE_STRIDE + sub];
      s_seen[k] = s;
#endif
      phi2_seen[k] = phi2;
      x[k] = started;
      // What a start explains is taken out of the residual, a feature after another.
      if (start_z) {
        unsigned on = __ballot_sync(EVERY_LANE, started != 0);
        for (on = (on | on >> 16) & 0xffffu; on; on &= on - 1) {
          const int lane_on = __ffs(on) - 1;
          own.change(lane_on, __shfl_sync(EVERY_LANE, started, lane_on, 16), 0);
        }
      }
    }
#else
    own.begin(correlations + row * KP, live);
    for (int k = sub; k < KP; k += 16) x[k] = 0;
    __syncwarp();
    if (start_z) {
      for (int k = 0; k < K; ++k) {
        const real started = live ? start_z[row * K + k] * start_w[row * K + k] : 0;
        if (__ballot_sync(EVERY_LANE, started != 0) == 0) continue;
        own.change(k, started, 0);
        if (sub == 0) x[k] = started;
      }
    }
#endif
#if TWO_STEP
    // The odds of z are taken given w, so that an idle w must be there: it is drawn from its prior at the start of
    // a chain, and known where one goes on.
    for (int g = 0; g < KP / 64; ++g) {
      const uint4 words = row_words(NORMAL, 0, id, step_of(moment, step), g, sub, key0, key1);
      for (int j = 0; j < 4; ++j) {
        const int k = 64 * g + 16 * j + sub;
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
        uint4 uniforms = row_words(UNIFORM, first_sweep + sweep, id, step_of(moment, step), g, sub, key0, key1);
        uint4 normals = row_words(NORMAL, first_sweep + sweep, id, step_of(moment, step), g, sub, key0, key1);
#pragma unroll kUnrolledParts
        for (int part = 0; part < 4; ++part) {
          const int b = 4 * g + part, k = 16 * b + sub;
          if (b >= n_tiles) break;
          const unsigned word = uniforms.x, normal_word = normals.x;
          uniforms = make_uint4(uniforms.y, uniforms.z, uniforms.w, 0);
          normals = make_uint4(normals.y, normals.z, normals.w, 0);
          // The uniform number and one minus it, times 2^32.
          const real u = static_cast<real>(word) + real(0.5), not_u = static_cast<real>(~word) + real(0.5);
          real x_k = x[k];
          const bool was_on = x_k != 0;
#if MISSING
          own.look_at(tiles.get(b));
          const real s = s_seen[k], phi2 = VARIANCE ? phi2_seen[k] : s;
          real correlated = own.correlation();
#else
          const real s = s_all[k], phi2 = phi2_all[k];
          real correlated = own.correlation(b, part);
#endif
          const real kappa = g_w + g_o * s, variance = 1 / kappa;
#if TWO_STEP
          const real w_k = w[k], odds = logit2[k];
#else
          const real odds = logit2[k] - real(0.5) * log_2(kappa * inverse_g_w), gain = half_g_o2 * variance;
#endif
          real c;
          bool on;
          // z = 1 where u < sigmoid(log odds), that is where exp(-log odds) u < 1 - u.
          const auto judge = [&] {
            c = correlated + x_k * phi2;
#if TWO_STEP
            const real log_odds = odds + static_cast<real>(LOG2_E) * g_o * (w_k * c - real(0.5) * w_k * w_k * s);
#else
            const real log_odds = odds + gain * c * c;
#endif
            on = power_of_2(-log_odds) * u < not_u;
          };
          judge();
          int passed = -1;
          unsigned events = __ballot_sync(EVERY_LANE, on || was_on);
          real normal = 0;
          if (TWO_STEP || events) normal = normal_of_word(normal_word, real());
          __syncwarp();
          while (events) {
            const unsigned mine = (events >> shift) & 0xffffu;
            const int first_lane = mine ? __ffs(mine) - 1 : 0;
            real drawn = on ? g_o * c * variance + normal * root(variance) : real(0);
            if (on && drawn == 0) drawn = smallest(drawn);
            real change = __shfl_sync(EVERY_LANE, drawn - x_k, first_lane, 16);
            if (!mine) change = 0;
            if (mine && sub == first_lane) {
              x_k = drawn;
              if (writes) x[k] = drawn;
            }
            if (mine) passed = first_lane;
#if MISSING
            correlated = own.change(first_lane, change, correlated);
#else
            own.change(16 * b + first_lane, change, g);
            correlated = own.correlation(b, part);
#endif
            judge();
            events = __ballot_sync(EVERY_LANE, (on || was_on) && sub > passed);
          }
#if TWO_STEP
          w[k] = x_k != 0 ? x_k : normal * idle_sd;
#endif
        }
#if !MISSING
        own.next_group();
#endif
      }
      __syncwarp();

      if (sweep < burn_in) continue;
      const int64 at = (sweep - burn_in) * n_rows + row;
      int count = 0;
      for (int b = 0; b < n_tiles; ++b) {
        const int k = 16 * b + sub;
        const real x_k = x[k];
        const bool on = x_k != 0;
        const unsigned bits = (__ballot_sync(EVERY_LANE, on) >> shift) & 0xffffu;
        if (entries && live && writes && on) entries[at * K + count + __popc(bits & ((1u << sub) - 1))] = {k, x_k};
        count += __popc(bits);
        if (posterior && live && writes && k < K) {
          real* to = posterior + row * K + k;
          to[0] += on ? 1 : 0;
          to[n_rows * K] += x_k;
          to[2 * n_rows * K] += x_k * x_k;
        }
      }
      if (counts && live && writes && sub == 0) counts[at] = count;
      __syncwarp();
      if (!squares || !live) continue;
#if MISSING
      // Zero where nothing is observed, for the products that the sums are.
      for (int d = sub; residuals && writes && d < D; d += 16) residuals[at * D + d] = 0;
      __syncwarp(live_lanes);
      own.visit([&](int d, real r) {
        row_squares += static_cast<double>(r) * r;
        if (residuals) residuals[at * D + d] = r;
      });
#else
      for (int d = sub; d < D; d += 16) {
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
      if (live && writes && sub == 0) squares[row] = row_squares;
#if MISSING
      if (live && writes && sub == 0) n_observed[row] = own.n_observed();
#endif
    }
    if (state && live && writes) {
      for (int k = sub; k < K; k += 16) {
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
