// Gibbs sampling (MATH.md section 4): half a warp a row, its lanes sixteen features that are judged at once, and
// judged again only after one of them has changed.
//
// Variants, by macro: MISSING (the residual at the observed columns is kept) or not (the correlations of all
// features are kept, and changed by a row of the Gram matrix), TWO_STEP, VARIANCE (phi is uncertain), TILES, REAL.
#include "common.cuh"
#include "tiles.cuh"

#ifndef MISSING
#define MISSING 1
#endif
#ifndef TWO_STEP
#define TWO_STEP 0
#endif
#ifndef VARIANCE
#define VARIANCE 0
#endif

// An observed column of a row: where it is in a tile, and what is left of it.
struct Observed {
  int place;
  real residual;
};

// sum_d o_d phi_kd r_d of this lane's feature.
__device__ inline real correlation(const real* tile, const Observed* seen, int n_seen, int sub) {
  real sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  for (int j = 0; j < n_seen; j += 4) {
    const Observed a = seen[j], b = seen[j + 1], c = seen[j + 2], d = seen[j + 3];
    sum0 += tile[a.place + sub] * a.residual;
    sum1 += tile[b.place + sub] * b.residual;
    sum2 += tile[c.place + sub] * c.residual;
    sum3 += tile[d.place + sub] * d.residual;
  }
  return (sum0 + sum1) + (sum2 + sum3);
}

extern "C" __global__ void __launch_bounds__(1024) gibbs(
    // rows: entry d of row i is at bases[ids[i]] + offsets[d], or at places[i] + offsets[d] without bases
    const real* values, const unsigned char* observed, const int64* ids, const int64* bases, const int* offsets,
    int64 n_rows, int K, int D,
    // view: tiles of phi and of its variance; features x columns; Gram matrix; sums over all columns of phi^2 and
    // phi^2 + v; log odds to base 2; precisions
    const real* phi_tiles, const real* v_tiles, const real* phi_rows, const real* gram, const real* phi2_all,
    const real* s_all, const real* logit2, const double* precisions,
    // complete rows: the rows themselves, and their correlations with the features
    const real* dense, const real* correlations,
    // chain
    unsigned key0, unsigned key1, unsigned step, int first_sweep, int burn_in, int n_samples, const real* start_z,
    const real* start_w,
    // results, each of which may be absent
    int* counts, Entry* entries, real* residuals, unsigned short* masks, double* squares, int* n_observed,
    real* posterior, real* state) {
  extern __shared__ double shared[];
  const int lane = threadIdx.x & 31, sub = lane & 15, half = lane & 16;
  const int slot = threadIdx.x / ROW_LANES, n_slots = blockDim.x / ROW_LANES;
  const int n_tiles = (K + 15) / 16, KP = (K + 63) / 64 * 64;
  const real g_o = static_cast<real>(precisions[0]), g_w = static_cast<real>(precisions[1]);
  const real inverse_g_w = 1 / g_w, idle_sd = root(inverse_g_w);
  const real half_g_o2 = static_cast<real>(0.5 * LOG2_E) * g_o * g_o;

  // Shared memory: tiles, then what each row needs: x, what is kept per feature, and its observed columns.
  real* memory = reinterpret_cast<real*>(shared);
#if MISSING
  const int tile_numbers =
      (TILES == TILES_RESIDENT ? n_tiles : TILES == TILES_STREAMED ? 2 : 0) * Tiles::tile_size(D);
  Tiles tiles(phi_tiles, memory, n_tiles, D);
  memory += tile_numbers;
  const int n_places = (D + 3) / 4 * 4;
  const int row_numbers = (2 + VARIANCE + TWO_STEP) * KP + n_places * static_cast<int>(sizeof(Observed) / sizeof(real));
#else
  const int row_numbers = (2 + TWO_STEP) * KP;
#endif
  real* x = memory + static_cast<int64>(slot) * row_numbers;
  real* kept = x + KP;  // s, or the correlations of complete rows
#if TWO_STEP
  real* w = kept + KP;
#endif
#if MISSING
  real* phi2_seen = VARIANCE ? x + (2 + TWO_STEP) * KP : kept;
  Observed* seen = reinterpret_cast<Observed*>(x + (2 + VARIANCE + TWO_STEP) * KP);
#endif

  for (int64 first = static_cast<int64>(blockIdx.x) * n_slots; first < n_rows;
       first += static_cast<int64>(gridDim.x) * n_slots) {
    const int64 row = first + slot;
    const bool live = row < n_rows;
    const int64 id = live ? ids[row] : 0;
    __syncwarp();

#if MISSING
    const int64 base = bases ? bases[id] : row * D;
    int n_own = 0;
    for (int d0 = 0; d0 < D; d0 += 16) {
      const int d = d0 + sub;
      const bool o = live && d < D && observed[base + offsets[d]];
      const unsigned bits = (__ballot_sync(EVERY_LANE, o) >> half) & 0xffffu;
      if (o) seen[n_own + __popc(bits & ((1u << sub) - 1))] = {d * TILE_STRIDE, values[base + offsets[d]]};
      if (masks && live && sub == 0) masks[row * ((D + 15) / 16) + d0 / 16] = bits;
      n_own += __popc(bits);
    }
    // Both rows of a warp loop as often; columns beyond a row's own have no residual.
    int n_seen = max(n_own, __shfl_xor_sync(EVERY_LANE, n_own, 16));
    n_seen = (n_seen + 3) / 4 * 4;
    for (int j = n_own + sub; j < n_seen; j += 16) seen[j] = {0, 0};
    __syncwarp();
    for (int b = 0; b < n_tiles; ++b) {
      const real* tile = tiles.get(b);
      const int k = 16 * b + sub;
      real phi2 = 0;
      for (int j = 0; j < n_own; ++j) {
        const real phi = tile[seen[j].place + sub];
        phi2 += phi * phi;
      }
#if VARIANCE
      const real* v_tile = v_tiles + static_cast<int64>(b) * Tiles::tile_size(D);
      real s = phi2;
      for (int j = 0; j < n_own; ++j) s += v_tile[seen[j].place + sub];
      kept[k] = s;
#endif
      phi2_seen[k] = phi2;
      x[k] = 0;
      // A start: what it explains is taken out of the residual, a feature after another.
      if (start_z) {
        const real started = live && k < K ? start_z[row * K + k] * start_w[row * K + k] : 0;
        x[k] = started;
        unsigned on = __ballot_sync(EVERY_LANE, started != 0);
        on = (on | on >> 16) & 0xffffu;
        __syncwarp();
        for (; on; on &= on - 1) {
          const int lane_on = __ffs(on) - 1;
          const real change = __shfl_sync(EVERY_LANE, started, lane_on, 16);
          for (int j = sub; j < n_own; j += 16) seen[j].residual -= change * tile[seen[j].place + lane_on];
        }
      }
    }
#else
    for (int k = sub; k < KP; k += 16) {
      x[k] = 0;
      kept[k] = live ? correlations[row * KP + k] : 0;
    }
    __syncwarp();
    if (start_z) {
      for (int k = 0; k < K; ++k) {
        const real started = live ? start_z[row * K + k] * start_w[row * K + k] : 0;
        if (__ballot_sync(EVERY_LANE, started != 0) == 0) continue;
        for (int j = sub; j < KP; j += 16) kept[j] -= started * gram[static_cast<int64>(k) * KP + j];
        if (sub == 0) x[k] = started;
      }
      __syncwarp();
    }
#endif
#if TWO_STEP
    // The odds of z are taken given w, so that an idle w must be there: it is drawn from its prior at the start of
    // a chain, and known where one goes on.
    for (int g = 0; g < KP / 64; ++g) {
      const uint4 words = row_words(NORMAL, 0, id, step, g, sub, key0, key1);
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
      for (int g = 0; g < KP / 64; ++g) {
        const uint4 uniforms = row_words(UNIFORM, first_sweep + sweep, id, step, g, sub, key0, key1);
        const uint4 normals = row_words(NORMAL, first_sweep + sweep, id, step, g, sub, key0, key1);
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int b = 4 * g + part, k = 16 * b + sub;
          if (b >= n_tiles) break;
          const unsigned word = word_of(uniforms, part);
          // The uniform number and one minus it, times 2^32.
          const real u = static_cast<real>(word) + real(0.5), not_u = static_cast<real>(~word) + real(0.5);
          real x_k = x[k];
          const bool was_on = x_k != 0;
#if MISSING
          const real* tile = tiles.get(b);
          const real s = kept[k], phi2 = VARIANCE ? phi2_seen[k] : s;
          real correlated = correlation(tile, seen, n_seen, sub);
#else
          const real s = s_all[k], phi2 = phi2_all[k];
          real correlated = kept[k];
#endif
          const real kappa = g_w + g_o * s, variance = 1 / kappa;
          real c;
          bool on;
#if TWO_STEP
          const real w_k = w[k], odds = logit2[k];
#else
          const real odds = logit2[k] - real(0.5) * log_2(kappa * inverse_g_w), gain = half_g_o2 * variance;
#endif
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
#if TWO_STEP
          const real normal = normal_of_word(word_of(normals, part), real());
#else
          real normal = 0;
          if (events) normal = normal_of_word(word_of(normals, part), real());
#endif
          while (events) {
            const unsigned own = (events >> half) & 0xffffu;
            const int first_lane = own ? __ffs(own) - 1 : 0;
            real drawn = on ? g_o * c * variance + normal * root(variance) : real(0);
            if (on && drawn == 0) drawn = smallest(drawn);
            real change = __shfl_sync(EVERY_LANE, drawn - x_k, first_lane, 16);
            if (!own) change = 0;
            if (own && sub == first_lane) {
              x_k = drawn;
              x[k] = drawn;
            }
            if (own) passed = first_lane;
#if MISSING
            for (int j = sub; j < n_own; j += 16) {
              const Observed at = seen[j];
              seen[j].residual = at.residual - change * tile[at.place + first_lane];
            }
            __syncwarp();
            correlated = correlation(tile, seen, n_seen, sub);
#else
            const real* overlaps = gram + static_cast<int64>(16 * b + first_lane) * KP;
            if (own)
              for (int j = 4 * sub; j < KP; j += 64) {
#pragma unroll
                for (int i = 0; i < 4; ++i) kept[j + i] -= change * overlaps[j + i];
              }
            __syncwarp();
            correlated = kept[k];
#endif
            judge();
            __syncwarp();
            events = __ballot_sync(EVERY_LANE, (on || was_on) && sub > passed);
          }
#if TWO_STEP
          w[k] = x_k != 0 ? x_k : normal * idle_sd;
#endif
        }
      }
      __syncwarp();

      if (sweep < burn_in) continue;
      const int64 at = (sweep - burn_in) * n_rows + row;
      int count = 0;
      if (entries || posterior) {
        for (int b = 0; b < n_tiles; ++b) {
          const int k = 16 * b + sub;
          const real x_k = x[k];
          const bool on = x_k != 0;
          const unsigned bits = (__ballot_sync(EVERY_LANE, on) >> half) & 0xffffu;
          if (entries && live && on) entries[at * K + count + __popc(bits & ((1u << sub) - 1))] = {k, x_k};
          count += __popc(bits);
          if (posterior && live && k < K) {
            real* to = posterior + row * K + k;
            to[0] += on ? 1 : 0;
            to[n_rows * K] += x_k;
            to[2 * n_rows * K] += x_k * x_k;
          }
        }
        if (counts && live && sub == 0) counts[at] = count;
      }
#if MISSING
      if (squares) {
        for (int j = sub; j < n_own; j += 16) {
          const Observed o = seen[j];
          row_squares += static_cast<double>(o.residual) * o.residual;
          if (residuals && live) residuals[at * D + o.place / TILE_STRIDE] = o.residual;
        }
      }
#else
      if (squares) {
        __syncwarp();
        for (int d = sub; d < D; d += 16) {
          if (!live) break;
          real r = dense[row * D + d];
          for (int e = 0; e < count; ++e) {
            const Entry entry = entries[at * K + e];
            r -= entry.weight * phi_rows[static_cast<int64>(entry.feature) * D + d];
          }
          row_squares += static_cast<double>(r) * r;
          if (residuals) residuals[at * D + d] = r;
        }
      }
#endif
    }
    if (squares) {
      row_squares = lane_sum<ROW_LANES>(row_squares);
      if (live && sub == 0) squares[row] = row_squares;
#if MISSING
      if (live && sub == 0) n_observed[row] = n_own;
#endif
    }
    if (state && live) {
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
