// The factor model of one group, fitted by EM: docs/math.md section 19. For one instruction set.
#pragma once

#include "eigen.h"
#include "members.h"

namespace BPFA_ISA {

using bpfa::groups::GroupResult;
using bpfa::groups::Round;

// Rows that are multiplied with themselves at once.
constexpr int kProductRows = 64;

// Divides a piece of memory into aligned arrays; with a null pointer it only counts.
struct Allocator {
  char* base;
  std::size_t used = 0;
  template <class T>
  T* take(std::size_t n) {
    T* const result = reinterpret_cast<T*>(base + used);
    used += (n * sizeof(T) + bpfa::kAlignment - 1) / bpfa::kAlignment * bpfa::kAlignment;
    return result;
  }
};

struct Group {
  const Round& round;
  const int M, D, DP;
  float *X, *R, *Y, *centred;                  // M x DP: completed rows, observed rows less the mean
  float *covariance, *S, *K, *U, *products;    // D x DP
  float *factor, *rows, *mean, *own_variance;  // D x DP, kProductRows + D x DP, DP, M x DP
  float *inverse, *vector, *features;          // DP, DP, D x DP
  double *values, *beside;                     // D
  const float** pointers;                      // D
  std::int32_t *columns, *n_observed;          // M x D: the observed columns first, then the missing ones; M
  float* seen_rows;                            // D: in how many members a column is observed
  int n_rows = 0, rank = -1;

  Group(const Round& round, int n_members, Allocator& memory) : round(round), M(n_members), D(round.D), DP(round.DP) {
    const std::size_t square = static_cast<std::size_t>(D + 16) * DP, members = static_cast<std::size_t>(M) * DP;
    float** const of_members[] = {&X, &R, &Y, &centred, &own_variance};
    for (float** array : of_members) *array = memory.take<float>(members);
    float** const squares[] = {&covariance, &S, &K, &U, &products, &factor, &features};
    for (float** array : squares) *array = memory.take<float>(square);
    rows = memory.take<float>(static_cast<std::size_t>(kProductRows + D) * DP);
    float** const vectors[] = {&mean, &inverse, &vector, &seen_rows};
    for (float** array : vectors) *array = memory.take<float>(2 * DP);
    values = memory.take<double>(DP);
    beside = memory.take<double>(DP);
    pointers = memory.take<const float*>(DP);
    columns = memory.take<std::int32_t>(static_cast<std::size_t>(M) * D);
    n_observed = memory.take<std::int32_t>(M);
  }

  float* row(float* matrix, int i) const { return matrix + static_cast<std::size_t>(i) * DP; }

  void clear(float* matrix, std::size_t n_rows_of_it) const {
    for (std::size_t i = 0; i < n_rows_of_it * DP; i += kLanes) store(matrix + i, Vec<float>{});
  }

  void gather(const std::int64_t* first) {
    clear(X, M);
    clear(Y, M);
    clear(seen_rows, 1);
    for (int n = 0; n < M; ++n) {
      int seen = 0, missing = D;
      for (int d = 0; d < D; ++d) {
        const std::int64_t at = first[n] + round.offsets[d];
        row(X, n)[d] = round.current[at];
        if (round.observed[at]) {
          row(Y, n)[d] = round.seen[at];
          columns[n * D + seen++] = d;
          seen_rows[d] += 1;
        } else {
          columns[n * D + --missing] = d;
        }
      }
      n_observed[n] = seen;
    }
  }

  // The mean of the completed rows and their scatter, to which `covariance` holds what is unknown of them.
  void moments() {
    clear(mean, 1);
    for (int n = 0; n < M; ++n) add_multiple(mean, 1.0f / M, row(X, n), DP);
    for (int n = 0; n < M; ++n)
      for (int d = 0; d < DP; d += kLanes) store(row(centred, n) + d, load(row(X, n) + d) - load(mean + d));
    add_symmetric_product(covariance, centred, centred, DP, M, 1.0f);
    float own = 0, shared = 0;
    if (round.prior)
      for (int d = 0; d < D; ++d) {
        own += row(covariance, d)[d] / M;
        shared += round.prior[static_cast<std::size_t>(d) * D + d];
      }
    const float scale = 1.0f / (M + (round.prior ? round.prior_rows : 0.0f));
    for (int i = 0; i < D; ++i) {
      float* const at = row(covariance, i);
      for (int j = 0; j < DP; j += kLanes) store(at + j, load(at + j) * scale);
      if (round.prior)
        for (int j = i; j < D; ++j)
          at[j] += scale * round.prior_rows * own / shared * round.prior[static_cast<std::size_t>(i) * D + j];
    }
    copy_upper_to_lower(covariance, DP, D);
  }

  // The number of features with the best odds, given the eigenvalues.
  int best_rank() {
    double total = 0, explained = 0, best = 0;
    const double rows_worth = M > 2 ? M : 2, penalty = __builtin_log(rows_worth) / 2;
    for (int j = 0; j < D; ++j) {
      values[j] = (values[j] > 0 ? values[j] : 0) + round.floor;
      total += values[j];
    }
    int chosen = 0;
    for (int q = 0; q < D; ++q) {
      const double rest = total / (D - q);
      const double score =
          -rows_worth / 2 * (explained + (D - q) * __builtin_log(rest > round.floor ? rest : round.floor)) -
          (D * q - q * (q + 1) / 2.0) * penalty + round.log_prior[q];
      if (q == 0 || score > best) {
        best = score;
        chosen = q;
      }
      explained += __builtin_log(values[q]);
      total -= values[q];
    }
    return chosen;
  }

  void full_rank() {
    for (int i = 0; i < D; ++i) {
      for (int j = 0; j < DP; j += kLanes) store(row(S, i) + j, load(row(covariance, i) + j));
      row(S, i)[i] += round.floor;
    }
  }

  // S = features^T products + rest I, where the features are orthonormal rows and `products` = (their covariance less
  // the rest) x features.
  void low_rank(float rest) {
    clear(S, D);
    add_symmetric_product(S, features, products, DP, rank, 1.0f);
    for (int i = 0; i < D; ++i) row(S, i)[i] += rest;
    copy_upper_to_lower(S, DP, D);
  }

  // The covariance S of the rows by the features that the group has; how many is decided in the first iteration.
  void model(int iteration) {
    if (!round.log_prior) return full_rank();
    if (iteration == 0) {
      for (int i = 0; i < D; ++i)
        for (int j = 0; j < DP; j += kLanes) store(row(U, i) + j, load(row(covariance, i) + j));
      symmetric_eigen(U, DP, D, values, features, beside, rows);
      rank = best_rank();
      double rest = 0;
      for (int j = rank; j < D; ++j) rest += values[j];
      rest /= D - rank;
      for (int k = 0; k < rank; ++k)
        for (int d = 0; d < DP; d += kLanes)
          store(row(products, k) + d, load(row(features, k) + d) * static_cast<float>(values[k] - rest));
      return low_rank(static_cast<float>(rest));
    }
    float trace = 0;
    for (int d = 0; d < D; ++d) trace += row(covariance, d)[d];
    if (rank > 0) {
      clear(products, rank);
      add_product(products, features, DP, covariance, DP, rank, D);
      for (int k = 0; k < rank; ++k) {
        const float length = __builtin_sqrtf(dot(row(products, k), row(products, k), DP));
        const float scale = length > 0 ? 1 / length : 0;
        for (int d = 0; d < DP; d += kLanes) store(row(features, k) + d, load(row(products, k) + d) * scale);
      }
      orthonormalise(features, DP, rank, factor, inverse, pointers);
      // Once more, because the rows were not quite orthogonal in single precision.
      orthonormalise(features, DP, rank, factor, inverse, pointers);
      clear(rows, rank);
      add_product(rows, features, DP, covariance, DP, rank, D);
      for (int k = 0; k < rank; ++k) {
        for (int j = 0; j < DP; ++j) row(factor, k)[j] = 0;
        for (int j = 0; j < rank; ++j) row(factor, k)[j] = dot(row(rows, k), row(features, j), DP);
        trace -= row(factor, k)[k];
      }
      const float rest = (trace > 0 ? trace : 0) / (D - rank);
      for (int k = 0; k < rank; ++k) row(factor, k)[k] -= rest;
      clear(products, rank);
      add_product(products, factor, DP, features, DP, rank, rank);
      return low_rank(rest + round.floor);
    }
    low_rank((trace > 0 ? trace : 0) / D + round.floor);
  }

  // K = (S + noise)^-1.
  void invert() {
    for (int i = 0; i < D; ++i) {
      for (int j = 0; j < DP; j += kLanes) store(row(U, i) + j, load(row(S, i) + j));
      row(U, i)[i] += round.noise[i];
    }
    cholesky(U, DP, D, inverse, smallest());
    clear(factor, D);
    for (int i = 0; i < D; ++i) {
      row(factor, i)[i] = 1;
      pointers[i] = row(factor, i);
    }
    solve(U, DP, D, inverse, pointers, factor, DP);
    clear(K, D);
    add_symmetric_product(K, factor, factor, DP, D, 1.0f);
    copy_upper_to_lower(K, DP, D);
  }

  float smallest() const {
    float least = round.noise[0];
    for (int d = 1; d < D; ++d) least = round.noise[d] < least ? round.noise[d] : least;
    return 0.01f * (least + round.floor);
  }

  void add_rows(float factor_of_them) {
    if (n_rows > 0) add_symmetric_product(covariance, rows, rows, DP, n_rows, factor_of_them);
    n_rows = 0;
  }

  // A member of which less than half is observed: C = S - S_:O A^-1 S_O:, A = S_OO + noise.
  void condition_on_observed(int n, bool last) {
    const std::int32_t* const o = columns + n * D;
    const int count = n_observed[n];
    for (int i = 0; i < count; ++i) {
      const float* const from = row(S, o[i]);
      for (int j = i; j < count; ++j) row(factor, i)[j] = from[o[j]];
      row(factor, i)[i] += round.noise[o[i]];
      pointers[i] = from;
      vector[i] = row(Y, n)[o[i]] - mean[o[i]];
    }
    cholesky(factor, DP, count, inverse, smallest());
    if (!last && n_rows + count > kProductRows) add_rows(-1.0f);
    float* const B = row(rows, n_rows);
    solve(factor, DP, count, inverse, pointers, B, DP);
    solve_vector(factor, DP, count, inverse, vector, false);
    for (int d = 0; d < DP; d += kLanes) {
      Vec<float> value = load(mean + d);
      for (int i = 0; i < count; ++i) value += vector[i] * load(row(B, i) + d);
      store(row(X, n) + d, value);
    }
    if (last) {
      for (int d = 0; d < D; ++d) row(own_variance, n)[d] = row(S, d)[d];
      for (int i = 0; i < count; ++i)
        for (int d = 0; d < DP; d += kLanes) {
          const Vec<float> b = load(row(B, i) + d);
          store(row(own_variance, n) + d, load(row(own_variance, n) + d) - b * b);
        }
    } else {
      n_rows += count;
    }
  }

  // A member of which at least half is observed: from the complete case, by taking away the missing columns V:
  // C = noise - noise K noise + T^T K_VV^-1 T, T = K_V: S = I_V: - K_V: noise.
  void condition_on_all_but_missing(int n, bool last) {
    const std::int32_t* const missing = columns + n * D + n_observed[n];
    const int count = D - n_observed[n];
    const float* const g = row(R, n);  // K (y - mean), with zeros at the missing columns
    for (int d = 0; d < D; ++d) row(X, n)[d] = mean[d] + row(centred, n)[d] - round.noise[d] * g[d];
    if (last)
      for (int d = 0; d < D; ++d)
        row(own_variance, n)[d] = round.noise[d] - round.noise[d] * round.noise[d] * row(K, d)[d];
    if (count == 0) return;
    if (!last && n_rows + count > kProductRows) add_rows(1.0f);
    float* const T = row(rows, n_rows);
    for (int i = 0; i < count; ++i) {
      const float* const from = row(K, missing[i]);
      for (int j = i; j < count; ++j) row(factor, i)[j] = from[missing[j]];
      vector[i] = g[missing[i]];
      float* const t = row(T, i);
      for (int d = 0; d < D; ++d) t[d] = -from[d] * round.noise[d];
      for (int d = D; d < DP; ++d) t[d] = 0;
      t[missing[i]] += 1;
      pointers[i] = t;
    }
    cholesky(factor, DP, count, inverse, 1e-12f);
    solve_vector(factor, DP, count, inverse, vector, true);
    for (int i = 0; i < count; ++i) {
      for (int d = 0; d < D; ++d) row(X, n)[d] -= vector[i] * row(T, i)[d];
    }
    solve(factor, DP, count, inverse, pointers, T, DP);
    if (last)
      for (int i = 0; i < count; ++i)
        for (int d = 0; d < D; ++d) row(own_variance, n)[d] += row(T, i)[d] * row(T, i)[d];
    else
      n_rows += count;
  }

  // The E-step: completes every row, and leaves in `covariance` the sum of what is unknown of them.
  void complete(bool last) {
    clear(covariance, D);
    int n_few = 0;
    for (int n = 0; n < M; ++n) n_few += 2 * n_observed[n] < D;
    for (int n = 0; n < M; ++n)
      if (2 * n_observed[n] < D) condition_on_observed(n, last);
    if (!last) {
      add_rows(-1.0f);
      if (n_few > 0)
        for (int i = 0; i < D; ++i)
          for (int j = 0; j < DP; j += kLanes)
            store(row(covariance, i) + j,
                  load(row(covariance, i) + j) + static_cast<float>(n_few) * load(row(S, i) + j));
    }
    if (n_few == M) return;
    invert();
    clear(centred, M);
    for (int n = 0; n < M; ++n)
      for (int i = 0; i < n_observed[n]; ++i) {
        const int d = columns[n * D + i];
        row(centred, n)[d] = row(Y, n)[d] - mean[d];
      }
    clear(R, M);
    add_product(R, centred, DP, K, DP, M, D);
    for (int n = 0; n < M; ++n)
      if (2 * n_observed[n] >= D) condition_on_all_but_missing(n, last);
    if (last) return;
    add_rows(1.0f);
    const float many = static_cast<float>(M - n_few);
    for (int i = 0; i < D; ++i) {
      for (int j = i; j < D; ++j) row(covariance, i)[j] -= many * round.noise[i] * round.noise[j] * row(K, i)[j];
      row(covariance, i)[i] += many * round.noise[i];
    }
  }

  // What is known of the members, with what is not known of the group's mean and features.
  void report(GroupResult& result) {
    for (int n = 0; n < M; ++n) {
      float* const v = row(own_variance, n);
      const std::int32_t* const o = columns + n * D;
      float freedom = 1;
      for (int i = 0; i < n_observed[n]; ++i) {
        const float noise = round.noise[o[i]];
        v[o[i]] = v[o[i]] < 0 ? 0 : v[o[i]] > noise ? noise : v[o[i]];
        freedom += v[o[i]] / noise;
      }
      for (int i = 0; i < D; ++i) {
        const int d = o[i];
        const float noise = round.noise[d], prior = row(S, d)[d];
        if (v[d] < 0) v[d] = 0;
        const float left = i < n_observed[n] ? 1 - v[d] / noise : 1;  // of an error in what the others predict
        const float spread = i < n_observed[n] ? noise / (left > 1e-6f ? left : 1e-6f) : noise + v[d];
        const float unknown = 1 / (seen_rows[d] / (spread * freedom) + 1 / prior) * left * left;
        if (i < n_observed[n]) {
          const double residual = row(Y, n)[d] - row(X, n)[d];
          const double expected = left * (1 - freedom / (seen_rows[d] + freedom));
          result.squares[d] += residual * residual;
          result.freedom[d] += expected;
        }
        result.mean[n * DP + d] = row(X, n)[d];
        result.weight[n * DP + d] = 1 / (v[d] + round.weight_share * noise);
        result.variance[n * DP + d] = v[d] + unknown;
      }
    }
    result.rank = rank;
  }
};

inline void fit_group(const Round& round, const std::int64_t* first, int n_members, GroupResult& result,
                      void* scratch) {
  const FlushSubnormals flush;
  Allocator memory{static_cast<char*>(scratch)};
  Group group(round, n_members, memory);
  group.gather(first);
  group.clear(group.covariance, group.D);
  for (int iteration = 0; iteration < round.n_iterations; ++iteration) {
    group.moments();
    group.model(iteration);
    group.complete(iteration + 1 == round.n_iterations);
  }
  group.report(result);
}

}  // namespace BPFA_ISA
