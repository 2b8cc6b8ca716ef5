// Gibbs sampling (docs/math.md section 4) as in gibbs.cu, z and w drawn together, for rows and dictionaries that fit
// into registers and shared memory: half a warp a row, its lanes sixteen features that are judged at once, and judged
// again only after one of them has changed.
//
// Variants, by macro: MISSING with OBSERVED (the most observed columns of a row) and MOSTLY_OBSERVED (most rows have
// nearly as many), or complete with FEATURE_TILES (of sixteen features, a multiple of four); VARIANCE (phi is
// uncertain); THREADS of a block; REAL.
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

struct alignas(4 * sizeof(real)) Four {
  real number[4];
};

#if MISSING
#include "rows_observed.cuh"
#else
#include "rows_complete.cuh"
#endif

extern "C" __global__ void __launch_bounds__(THREADS) gibbs_rows(
    // as in gibbs.cu, but that phi_tiles is not used and the Gram matrix is as rows_complete.cuh has it
    const real* values, const unsigned char* observed, const int64* ids, const int64* bases, const int* offsets,
    int64 n_rows, int K, int D, const real* phi_tiles, const real* v_tiles, const real* phi_rows, const real* gram,
    const real* phi2_all, const real* s_all, const real* logit2, const double* precisions, const real* dense,
    const real* correlations, unsigned key0, unsigned key1, unsigned step, const Moment* moment, int first_sweep,
    int burn_in, int n_samples, const real* start_z, const real* start_w, int* counts, Entry* entries, real* residuals,
    unsigned short* masks, double* squares, int* n_observed, real* posterior, real* state,
    // complete rows: rows of the Gram matrix that are in shared memory
    int n_resident) {
  extern __shared__ double shared[];
  real* memory = reinterpret_cast<real*>(shared);
  const int lane = threadIdx.x % 32, sub = lane % 16, shift = lane - sub;
  const int slot = threadIdx.x / 16;
  const int n_tiles = (K + 15) / 16, KP = (K + 63) / 64 * 64;
  const real g_o = static_cast<real>(precisions[0]), g_w = static_cast<real>(precisions[1]);
  // The log odds to base 2 grow by this times the variance of w and the squared correlation.
  const real half_g_o = static_cast<real>(0.5 * LOG2_E) * g_o, half_g_o2 = half_g_o * g_o;
  const real inverse_half_g_o2 = 1 / half_g_o2;
#if MISSING
  // Of log g_w - log kappa, to base 2 and halved, what is not the logarithm of the gain.
  const real log_prior = real(0.5) * log_2(g_w * inverse_half_g_o2);
  real* rows_memory = memory + Row::block_numbers(D, KP);
  const int row_numbers = Row::row_numbers(KP);
  Row::fill(memory, phi_rows, logit2, log_prior, D, KP);
  Row own(memory, rows_memory + slot * row_numbers, sub, D, KP);
#else
  real* rows_memory = memory + Row::block_numbers(n_resident);
  const int row_numbers = Row::row_numbers();
  Row::fill(memory, reinterpret_cast<int*>(rows_memory), n_resident, gram, phi2_all, s_all, logit2, g_o, g_w,
            half_g_o2);
  Row own(memory, rows_memory + slot * row_numbers, gram, sub);
#endif
  // Rows differ in the work that they are: a warp takes the next two when it is done with two. The last numbers of a
  // row's memory are not used.
  int* next_turn = reinterpret_cast<int*>(rows_memory + row_numbers - 1);
  if (slot == 0) *next_turn = 0;
  __syncthreads();

  for (;;) {
    int turn = 0;
    if (lane == 0) turn = atomicAdd(next_turn, 1);
    turn = __shfl_sync(EVERY_LANE, turn, 0);
    const int64 row = 2 * (static_cast<int64>(turn) * gridDim.x + blockIdx.x) + slot % 2;
    if (row - slot % 2 >= n_rows) break;
    const bool live = row < n_rows;
    [[maybe_unused]] const unsigned live_lanes = __ballot_sync(EVERY_LANE, live);
    const int64 id = live ? ids[row] : 0;
    __syncwarp();
#if MISSING
    const int64 base = bases ? bases[id] : row * D;
    own.begin(values, observed, offsets, base, live, D, KP, shift, masks ? masks + row * ((D + 15) / 16) : nullptr);
#else
    own.begin(correlations + row * KP, live);
#endif
    if (start_z) {
      // What a start explains is taken out, a feature after another.
      for (int k = 0; k < K; ++k) {
        const real started = live ? start_z[row * K + k] * start_w[row * K + k] : real(0);
        if (sub == k % 16) own.x(k) = started;
#if MISSING
        if (__any_sync(EVERY_LANE, started != 0)) own.change(k, started);
#else
        if (__any_sync(EVERY_LANE, started != 0)) own.change(k, started, Row::gram_row(own.odds(k)));
#endif
      }
    }

    double row_squares = 0;
    for (int sweep = 0; sweep < burn_in + n_samples; ++sweep) {
#pragma unroll 1
      for (int group = 0; group < KP / 64; ++group) {
        uint4 uniforms = row_words(UNIFORM, first_sweep + sweep, id, step_of(moment, step), group, sub, key0, key1);
        uint4 normals;
        bool normals_known = false;
#pragma unroll 1
        for (int part = 0; part < 4; ++part) {
          const int tile = 4 * group + part, k = 16 * tile + sub;
          if (tile >= n_tiles) break;
          own.look_at(tile);
#if MISSING
          if (sweep == 0) {
            real s = own.squared();
#if VARIANCE
            const real* v_tile = v_tiles + static_cast<int64>(tile) * Tiles::tile_size(D) + sub;
            if (live)
              for (int d = 0; d < D; ++d)
                if (observed[base + offsets[d]]) s += v_tile[d * TILE_STRIDE];
#endif
            own.gain(k) = half_g_o2 / (g_w + g_o * s);
          }
#endif
          real x = own.x(k), correlated = own.correlation();
          const unsigned word = uniforms.x;
          uniforms = make_uint4(uniforms.y, uniforms.z, uniforms.w, 0);
          const Odds odds = own.odds(k);
          const bool was_on = x != 0;
          // z = 1 where u < sigmoid(log odds), that is where u / (1 - u) is less than the odds.
          const real u = static_cast<real>(word) + real(0.5), rest = static_cast<real>(~word) + real(0.5);
          const bool may_change = was_on | (u < rest * power_of_2(odds.prior + odds.gain * correlated * correlated));
          unsigned events = __ballot_sync(EVERY_LANE, may_change);
          if (events == 0) continue;
          if (!normals_known) {
            normals = row_words(NORMAL, first_sweep + sweep, id, step_of(moment, step), group, sub, key0, key1);
            normals_known = true;
          }
          const real variance = odds.gain * inverse_half_g_o2;
#if MISSING
          // Of kappa = g_w + g_o phi2: what rounding does to phi2 is as small as what it does to kappa.
          const real phi2 = VARIANCE ? own.squared() : half_g_o / odds.gain - g_w / g_o;
#else
          const real phi2 = odds.phi2;
          const unsigned own_gram_row = Row::gram_row(odds);
#endif
          const real noise = normal_of_word(word_of(normals, part), real()) * root(variance);
          // What c must add to the log odds: logarithms are for the features that this is asked of again and again.
          const real needed = log_2(u) - log_2(rest) - odds.prior;
          real c;
          bool on;
          const auto judge = [&] {
            c = correlated + x * phi2;
            on = odds.gain * c * c > needed;
          };
          judge();
          do {
            const unsigned mine = events >> shift & 0xffffu;
            const int first_lane = mine ? __ffs(mine) - 1 : 0;
            // A feature that is on has a weight that is not zero.
            const real drawn = on ? g_o * variance * c + noise + smallest(noise) : real(0);
            real change = __shfl_sync(EVERY_LANE, drawn - x, first_lane, 16);
            if (!mine) change = 0;
            if (mine && sub == first_lane) x = drawn;
#if MISSING
            own.change(16 * tile + first_lane, change);
#else
            const unsigned gram_row = __shfl_sync(EVERY_LANE, own_gram_row, first_lane, 16);
            own.change(16 * tile + first_lane, change, mine ? gram_row : own.any_gram_row());
#endif
            correlated = own.correlation();
            judge();
            events = __ballot_sync(EVERY_LANE, mine && (on || was_on) && sub > first_lane);
          } while (events);
          own.x(k) = x;
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
          const int k = 16 * tile + sub;
          const real x = own.x(k);
          const unsigned on = __ballot_sync(EVERY_LANE, x != 0);
          if (on == 0) continue;
          const unsigned bits = on >> shift & 0xffffu;
          if (x != 0 && live) list[count + __popc(bits & ((1u << sub) - 1))] = {k, x};
          count += __popc(bits);
        }
        if (live && sub == 0) counts[at] = count;
      }
      if (posterior && live) {
        for (int k = sub; k < K; k += 16) {
          const real x = own.x(k);
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
      // Zero where nothing is observed, for the products that the sums are.
      for (int d = sub; d < D; d += 16) residuals[at * D + d] = 0;
      __syncwarp(live_lanes);
      own.visit(D, [&](int d, real r) {
        sample_squares += r * r;
        residuals[at * D + d] = r;
      });
#else
      const Entry* list = entries + at * K;
      const auto residual = [&](auto columns) {
        for (int d = columns.first(sub); d < D; d += 64) {
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
      if (live && sub == 0) squares[row] = row_squares;
#if MISSING
      if (live && sub == 0) n_observed[row] = own.n_observed();
#endif
    }
    if (state && live) {
      for (int k = sub; k < K; k += 16) {
        const real x = own.x(k);
        state[row * K + k] = x != 0 ? 1 : 0;
        state[(n_rows + row) * K + k] = x;
      }
    }
  }
}
