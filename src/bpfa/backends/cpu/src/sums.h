// Sums over the rows of a chunk (docs/math.md section 4). Every call adds to a part of the result that no other call
// touches, and goes through the rows in order. So the result does not depend on the number of threads, and no thread
// needs a copy of the whole.
#pragma once

#include "problem.h"
#include "vec.h"

namespace BPFA_ISA {

using bpfa::Chunk;
using bpfa::Globals;
using bpfa::JointTask;
using bpfa::Sums;

constexpr int kTile = bpfa::kColumnPadding;

// --- Gibbs: a kept sample is a short list of active features ------------------------------------------------

// Adds a tile of features x columns to the sums and sets it to zero.
template <class Real>
BPFA_INLINE void flush_tile(const Globals<Real>& g, Real* tile, double* sums) {
  for (int k = 0; k < g.K; ++k)
    for (int d = 0; d < kTile; ++d) {
      sums[static_cast<std::size_t>(k) * g.DP + d] += tile[k * kTile + d];
      tile[k * kTile + d] = 0;
    }
}

// For a tile of columns: the sums of x r or x y, of o x^2 where entries are missing, and of the squared residual.
template <class Real>
void sparse_columns(const Globals<Real>& g, int n_samples, const Chunk<Real>& chunk, int n_slots, int tile,
                    const Sums& sums, void* scratch) {
  constexpr int W = lanes<Real>;
  const int d0 = tile * kTile;
  // Sums over some rows are accumulated in Real, in tiles that fit into the first-level cache, and these are added to
  // the sums over all rows in double precision.
  Real* const product = static_cast<Real*>(scratch);
  Real* const square = product + static_cast<std::size_t>(g.K) * kTile;
  for (std::size_t i = 0; i < 2 * static_cast<std::size_t>(g.K) * kTile; ++i) product[i] = 0;
  const Real* const phi = g.tiles + static_cast<std::size_t>(g.K) * d0;
  const int kept_rows = bpfa::kSamplesPerFlush / n_samples, rows_per_flush = kept_rows > 1 ? kept_rows : 1;
  double rr = 0;
  for (int slot = 0; slot < n_slots; ++slot) {
    const Real* y = chunk.y + static_cast<std::size_t>(slot) * g.DP + d0;
    const Real* o = chunk.o ? chunk.o + static_cast<std::size_t>(slot) * g.DP + d0 : nullptr;
    const std::size_t lists = static_cast<std::size_t>(slot) * (n_samples + 1);
    Vec<Real> row_rr{};
    for (int sample = 0; sample < n_samples; ++sample) {
      const std::int32_t* feature = chunk.feature + chunk.start[lists + sample];
      const Real* weight = chunk.value + chunk.start[lists + sample];
      const int n = chunk.count[lists + sample];
      for (int d = 0; d < kTile; d += W) {
        Vec<Real> r = load(y + d), odd{};
        int j = 0;
        for (; j + 2 <= n; j += 2) {
          r -= weight[j] * load(phi + feature[j] * kTile + d);
          odd -= weight[j + 1] * load(phi + feature[j + 1] * kTile + d);
        }
        if (j < n) r -= weight[j] * load(phi + feature[j] * kTile + d);
        r += odd;
        if (o) r *= load(o + d);
        row_rr += r * r;
        // Joint sums need x y, factorised ones x r.
        const Vec<Real> other = sums.xy ? load(y + d) : r;
        for (j = 0; j < n; ++j) {
          Real* to = product + feature[j] * kTile + d;
          store(to, load(to) + weight[j] * other);
        }
      }
    }
    if (o) {
      const std::int32_t* feature = chunk.feature + chunk.start[lists + n_samples];
      const Real* value = chunk.value + chunk.start[lists + n_samples];
      for (int j = 0; j < chunk.count[lists + n_samples]; ++j)
        for (int d = 0; d < kTile; d += W) {
          Real* to = square + feature[j] * kTile + d;
          store(to, load(to) + value[j] * load(o + d));
        }
    }
    rr += static_cast<double>(horizontal_sum<Real>(row_rr));
    if ((slot + 1) % rows_per_flush == 0 || slot + 1 == n_slots) {
      flush_tile(g, product, (sums.xy ? sums.xy : sums.xr) + d0);
      if (o) flush_tile(g, square, sums.zw2 + d0);
    }
  }
  sums.rr[tile] += rr;
}

// The sums for features alone: how often each one is on, and its x^2.
template <class Real>
void sparse_features(const Globals<Real>&, int n_samples, const Chunk<Real>& chunk, int n_slots, const Sums& sums) {
  for (int slot = 0; slot < n_slots; ++slot) {
    for (int i = 0; i <= n_samples; ++i) {
      const std::size_t list = static_cast<std::size_t>(slot) * (n_samples + 1) + i;
      const std::int32_t* feature = chunk.feature + chunk.start[list];
      const Real* value = chunk.value + chunk.start[list];
      for (int j = 0; j < chunk.count[list]; ++j) {
        if (i < n_samples)
          sums.n[feature[j]] += 1;
        else
          sums.total_zw2[feature[j]] += value[j];
      }
    }
  }
}

// Whether a task adds up the row in a slot.
template <class Real>
BPFA_INLINE bool includes_row(const JointTask& task, const Globals<Real>& g, const Chunk<Real>& chunk, int slot) {
  if (task.over == JointTask::Over::kAll) return true;
  const bool observed = chunk.o[static_cast<std::size_t>(slot) * g.DP + task.column] != 0;
  return observed == (task.over == JointTask::Over::kObserved);
}

// Adds x x^T of all samples of a row, pair by pair. This is quicker if few features are on.
template <class Real>
BPFA_INLINE void add_pairs(const Globals<Real>& g, const Chunk<Real>& chunk, std::size_t first_list, int n_samples,
                           double sign, const JointTask& task) {
  for (int sample = 0; sample < n_samples; ++sample) {
    const std::int32_t* feature = chunk.feature + chunk.start[first_list + sample];
    const Real* weight = chunk.value + chunk.start[first_list + sample];
    const int n = chunk.count[first_list + sample];
    for (int j = 0; j < n; ++j) {
      if (feature[j] < task.first || feature[j] >= task.last) continue;
      const double factor = sign * weight[j];
      double* row = task.xx + static_cast<std::size_t>(feature[j]) * g.K;
      for (int l = j; l < n; ++l) row[feature[l]] += factor * weight[l];
    }
  }
}

// The same for rows in which many features are on: the lists are expanded to dense vectors, kTogether samples at a
// time. This also adds to entries below the diagonal, which are never read.
constexpr int kTogether = 4, kAlignedFeatures = 8;

template <class Real>
BPFA_INLINE void add_products(const Globals<Real>& g, const Chunk<Real>& chunk, std::size_t first_list, int n_samples,
                              double sign, const JointTask& task, double* x) {
  for (int done = 0; done < n_samples; done += kTogether) {
    double* const rows[kTogether] = {x, x + g.K, x + 2 * static_cast<std::size_t>(g.K),
                                     x + 3 * static_cast<std::size_t>(g.K)};
    for (std::size_t i = 0; i < kTogether * static_cast<std::size_t>(g.K); ++i) x[i] = 0;
    for (int sample = done; sample < n_samples && sample < done + kTogether; ++sample) {
      const std::size_t list = first_list + sample;
      for (int j = 0; j < chunk.count[list]; ++j)
        rows[sample - done][chunk.feature[chunk.start[list] + j]] = chunk.value[chunk.start[list] + j];
    }
    for (int k = task.first; k < task.last; ++k) {
      const double f0 = sign * rows[0][k], f1 = sign * rows[1][k], f2 = sign * rows[2][k], f3 = sign * rows[3][k];
      if (f0 == 0 && f1 == 0 && f2 == 0 && f3 == 0) continue;
      double* row = task.xx + static_cast<std::size_t>(k) * g.K;
      // Starts at a multiple of a register's width, which avoids a separate loop for the first few features.
      for (int l = k / kAlignedFeatures * kAlignedFeatures; l < g.K; ++l)
        row[l] += (f0 * rows[0][l] + f1 * rows[1][l]) + (f2 * rows[2][l] + f3 * rows[3][l]);
    }
  }
}

// Adds x x^T over the rows of a task.
template <class Real>
void sparse_joint(const Globals<Real>& g, int n_samples, const Chunk<Real>& chunk, int n_slots, const JointTask& task,
                  void* scratch) {
  const double sign = task.over == JointTask::Over::kMissing ? -1 : 1;
  for (int slot = 0; slot < n_slots; ++slot) {
    if (!includes_row(task, g, chunk, slot)) continue;
    const std::size_t first_list = static_cast<std::size_t>(slot) * (n_samples + 1);
    std::int64_t on = 0;
    for (int sample = 0; sample < n_samples; ++sample) on += chunk.count[first_list + sample];
    // Dense products are quicker if on average more than a quarter of the features are on.
    if (4 * on > static_cast<std::int64_t>(n_samples) * g.K)
      add_products(g, chunk, first_list, n_samples, sign, task, static_cast<double*>(scratch));
    else
      add_pairs(g, chunk, first_list, n_samples, sign, task);
  }
}

// --- variational: every feature of every row counts ---------------------------------------------------------

// out_kd += sum_i a_ik b_id, or with a_ik^2 if Square, for F features from k on. Sums over blocks of rows are
// accumulated in registers, and these are added to the sums over all rows in double precision.
template <class Real, int F, bool Square>
BPFA_INLINE void add_outer_products(const Real* a, int a_stride, const Real* b, int b_stride, int n_slots, int k,
                                    int width, double* out, int out_stride) {
  constexpr int W = lanes<Real>, kBlock = 32;
  for (int d = 0; d < width; d += W) {
    for (int first = 0; first < n_slots; first += kBlock) {
      const int last = first + kBlock < n_slots ? first + kBlock : n_slots;
      Vec<Real> sum[F] = {};
      for (int i = first; i < last; ++i) {
        const Vec<Real> row = load(b + static_cast<std::size_t>(i) * b_stride + d);
        for (int f = 0; f < F; ++f) {
          const Real factor = a[static_cast<std::size_t>(i) * a_stride + k + f];
          sum[f] += (Square ? factor * factor : factor) * row;
        }
      }
      for (int f = 0; f < F; ++f) {
        alignas(64) Real lane[W];
        store(lane, sum[f]);
        double* to = out + static_cast<std::size_t>(k + f) * out_stride + d;
        for (int j = 0; j < W; ++j) to[j] += lane[j];
      }
    }
  }
}

// The same for features first to last - 1.
template <class Real, bool Square = false>
void add_outer_products_of_tile(const Real* a, int a_stride, const Real* b, int b_stride, int n_slots, int first,
                                int last, int width, double* out, int out_stride) {
  int k = first;
  for (; k + 4 <= last; k += 4)
    add_outer_products<Real, 4, Square>(a, a_stride, b, b_stride, n_slots, k, width, out, out_stride);
  for (; k < last; ++k)
    add_outer_products<Real, 1, Square>(a, a_stride, b, b_stride, n_slots, k, width, out, out_stride);
}

// For a tile of features: all sums of the variational methods except those of x x^T.
template <class Real>
void dense_features(const Globals<Real>& g, const Chunk<Real>& chunk, int n_slots, int tile, const Sums& sums) {
  [[maybe_unused]] const FlushSubnormals flush_subnormals;
  const int first = tile * kTile, last = first + kTile < g.K ? first + kTile : g.K;
  for (int slot = 0; slot < n_slots; ++slot) {
    const std::size_t at = static_cast<std::size_t>(slot) * g.KP;
    for (int k = first; k < last; ++k) {
      sums.n[k] += chunk.theta[at + k];
      sums.total_zw2[k] += chunk.zw2[at + k];
      if (!chunk.o) sums.x2[k] += static_cast<double>(chunk.x[at + k]) * chunk.x[at + k];
    }
  }
  if (chunk.o) {
    add_outer_products_of_tile<Real>(chunk.zw2, g.KP, chunk.o, g.DP, n_slots, first, last, g.DP, sums.zw2, g.DP);
    add_outer_products_of_tile<Real, true>(chunk.x, g.KP, chunk.o, g.DP, n_slots, first, last, g.DP, sums.x2, g.DP);
  }
  if (sums.xr)
    add_outer_products_of_tile<Real>(chunk.x, g.KP, chunk.residual, g.DP, n_slots, first, last, g.DP, sums.xr, g.DP);
  if (sums.xy)
    add_outer_products_of_tile<Real>(chunk.x, g.KP, chunk.y, g.DP, n_slots, first, last, g.DP, sums.xy, g.DP);
  // What does not belong to any feature is added by the call for the first tile.
  if (tile == 0) {
    for (int slot = 0; slot < n_slots; ++slot) {
      const Real* r = chunk.residual + static_cast<std::size_t>(slot) * g.DP;
      double rr = 0;
      for (int d = 0; d < g.D; ++d) rr += static_cast<double>(r[d]) * r[d];
      sums.rr[0] += rr;
      sums.w2[0] += chunk.w2[slot];
    }
  }
}

// Adds E[x] E[x]^T over the rows of a task.
template <class Real>
void dense_joint(const Globals<Real>& g, const Chunk<Real>& chunk, int n_slots, const JointTask& task) {
  const double sign = task.over == JointTask::Over::kMissing ? -1 : 1;
  for (int slot = 0; slot < n_slots; ++slot) {
    if (!includes_row(task, g, chunk, slot)) continue;
    const Real* x = chunk.x + static_cast<std::size_t>(slot) * g.KP;
    for (int j = task.first; j < task.last; ++j) {
      const double factor = sign * x[j];
      double* row = task.xx + static_cast<std::size_t>(j) * g.K;
      for (int k = j; k < g.K; ++k) row[k] += factor * x[k];
    }
  }
}

}  // namespace BPFA_ISA
