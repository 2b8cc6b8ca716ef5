// A group of like rows with its mean and covariance integrated out: docs/math.md section 23. For one instruction set.
#pragma once

#include "linear.h"
#include "row_members.h"

namespace BPFA_ISA {

using bpfa::groups::KeptRows;
using bpfa::groups::RowGroups;
using bpfa::groups::RowQuery;
using bpfa::groups::RowResult;

// Rows that are multiplied with themselves at once.
constexpr int kChunkRows = 64;
// How many members ahead the processor is asked to fetch, since they lie anywhere in memory.
constexpr int kAhead = 8;

// Divides a piece of memory into aligned arrays; with a null pointer it only counts.
struct ScratchMemory {
  char* base;
  std::size_t used = 0;
  template <class T>
  T* take(std::size_t n) {
    T* const result = reinterpret_cast<T*>(base + used);
    used += (n * sizeof(T) + bpfa::kAlignment - 1) / bpfa::kAlignment * bpfa::kAlignment;
    return result;
  }
};

struct RowGroup {
  const RowGroups& groups;
  const int D, DP;
  float *sums_of_products, *scatter, *factor;  // D x DP, with rows of padding
  float *chunk, *shift, *sum, *variance;       // kChunkRows x DP, DP, DP, DP
  float *mean, *ratio, *inverse, *residual;    // DP each
  float *moved, *squares;                      // DP each: what the observed entries tell of the others
  std::int32_t* order;                         // D: the observed columns, the scored ones, then the rest
  int n_observed = 0, n_scored = 0;

  RowGroup(const RowGroups& groups, ScratchMemory& memory) : groups(groups), D(groups.D), DP(groups.DP) {
    float** const squares_of[] = {&sums_of_products, &scatter, &factor};
    for (float** array : squares_of) *array = memory.take<float>(static_cast<std::size_t>(D + 16) * DP);
    chunk = memory.take<float>(static_cast<std::size_t>(kChunkRows) * DP);
    float** const vectors[] = {&shift, &sum, &variance, &mean, &ratio, &inverse, &residual, &moved, &squares};
    for (float** array : vectors) *array = memory.take<float>(2 * DP);
    order = memory.take<std::int32_t>(DP);
  }

  float* row(float* matrix, int i) const { return matrix + static_cast<std::size_t>(i) * DP; }

  void clear(float* numbers, std::size_t n) const {
    for (std::size_t i = 0; i < n; i += kLanes) store(numbers + i, Vec<float>{});
  }

  void begin(const KeptRows& kept, const RowQuery& query) {
    clear(sums_of_products, static_cast<std::size_t>(D + 16) * DP);
    clear(chunk, static_cast<std::size_t>(kChunkRows) * DP);
    for (float* vector : {shift, sum, variance}) clear(vector, DP);
    // Sums are taken about the nearest row, so that little is lost when the mean is subtracted from them.
    const float* const nearest = kept.values + static_cast<std::size_t>(query.nearest[0]) * D;
    for (int d = 0; d < D; ++d) shift[d] = nearest[d];
    n_observed = n_scored = 0;
    for (int d = 0; d < D; ++d)
      if (query.observed[d]) order[n_observed++] = d;
    for (int d = 0; d < D; ++d)
      if (query.scored[d] && !query.observed[d]) order[n_observed + n_scored++] = d;
    int last = n_observed + n_scored;
    for (int d = 0; d < D; ++d)
      if (!query.observed[d] && !query.scored[d]) order[last++] = d;
  }

  void add_members(const KeptRows& kept, const RowQuery& query, int from, int to) {
    for (; from < to; from += kChunkRows) {
      const int n = to - from < kChunkRows ? to - from : kChunkRows;
      for (int i = 0; i < n; ++i) {
        if (from + i + kAhead < to) fetch(kept, query.nearest[from + i + kAhead]);
        const std::size_t at = static_cast<std::size_t>(query.nearest[from + i]) * D;
        add_member(kept.values + at, kept.variance + at, row(chunk, i));
      }
      add_symmetric_product(sums_of_products, chunk, chunk, DP, n, 1.0f);
    }
  }

  void fetch(const KeptRows& kept, std::int32_t member) const {
    const std::size_t at = static_cast<std::size_t>(member) * D;
    for (int d = 0; d < D; d += 16) {
      __builtin_prefetch(kept.values + at + d);
      __builtin_prefetch(kept.variance + at + d);
    }
  }

  void add_member(const float* values, const float* unknown, float* centred) {
    int d = 0;
    for (; d + kLanes <= D; d += kLanes) {
      const Vec<float> difference = load_unaligned(values + d) - load(shift + d);
      store(centred + d, difference);
      store(sum + d, load(sum + d) + difference);
      store(variance + d, load(variance + d) + load_unaligned(unknown + d));
    }
    for (; d < D; ++d) {
      centred[d] = values[d] - shift[d];
      sum[d] += centred[d];
      variance[d] += unknown[d];
    }
  }

  // The mean and the upper triangle of the scatter of the first M rows, and the scale of the prior in every column.
  void moments(int M) {
    const float kappa = groups.mean_rows, weight = kappa * M / (kappa + M);
    for (int d = 0; d < D; ++d) mean[d] = sum[d] / M;
    for (int i = 0; i < D; ++i) {
      float* const to = row(scatter, i);
      const float* const from = row(sums_of_products, i);
      for (int j = i; j < D; ++j) to[j] = from[j] - M * mean[i] * mean[j];
      to[i] = (to[i] > 0 ? to[i] : 0) + variance[i];
      const float own = groups.covariance[static_cast<std::size_t>(i) * D + i], a = groups.scale_rows;
      ratio[i] = __builtin_isinf(a) ? 1.0f : __builtin_sqrtf((to[i] / own + a) / (M + a));
    }
    for (int d = 0; d < D; ++d) mean[d] += shift[d];
    if (kappa > 0)
      for (int i = 0; i < D; ++i)
        for (int j = i; j < D; ++j) row(scatter, i)[j] += weight * mean[i] * mean[j];
    for (int d = 0; d < D; ++d) mean[d] *= M / (kappa + M);
  }

  void predict(const RowQuery& query, float prior_rows, int M, RowResult& result) {
    const float kappa = groups.mean_rows, freedom = prior_rows + M + 2;
    const float scale = (kappa + M + 1) / ((kappa + M) * freedom);
    for (int i = 0; i < D; ++i) {
      float* const to = row(factor, i);
      const int a = order[i];
      for (int j = 0; j < i; ++j) to[j] = 0;
      for (int j = i; j < D; ++j) {
        const int b = order[j], low = a < b ? a : b, high = a < b ? b : a;
        const float share = i == j ? 1.0f : groups.correlation_share;
        const float prior = share * groups.covariance[static_cast<std::size_t>(low) * D + high] * ratio[a] * ratio[b];
        to[j] = scale * (row(scatter, low)[high] + prior_rows * prior);
      }
      for (int j = D; j < DP; ++j) to[j] = 0;
    }
    cholesky(factor, DP, D, inverse, 1e-12f);
    const int n_known = n_observed + n_scored;
    for (int i = 0; i < n_known; ++i) residual[i] = query.values[order[i]] - mean[order[i]];
    solve_vector(factor, DP, n_known, inverse, residual, false);
    double seen = freedom, both = 0, log_diagonal = 0;
    for (int i = 0; i < n_observed; ++i) seen += static_cast<double>(residual[i]) * residual[i];
    for (int i = n_observed; i < n_known; ++i) {
      both += static_cast<double>(residual[i]) * residual[i];
      log_diagonal -= __builtin_log(inverse[i]);
    }
    result.seen = seen;
    result.both = seen + both;
    result.log_diagonal = log_diagonal;
    clear(moved, DP);
    clear(squares, DP);
    for (int i = 0; i < n_observed; ++i) add_multiple(moved, residual[i], row(factor, i), DP);
    for (int i = n_observed; i < D; ++i) {
      const float* const own = row(factor, i);
      int j = i;
      // Before the diagonal there are remainders of the factorisation.
      for (; j < DP && j % kLanes; ++j) squares[j] += own[j] * own[j];
      for (; j < DP; j += kLanes) store(squares + j, load(squares + j) + load(own + j) * load(own + j));
    }
    const float wider = static_cast<float>(seen / (freedom + n_observed));
    for (int i = 0; i < D; ++i) {
      const int d = order[i];
      result.mean[d] = i < n_observed ? query.values[d] : mean[d] + moved[i];
      result.square_scale[d] = i < n_observed ? 0.0f : squares[i] * wider;
    }
  }
};

}  // namespace BPFA_ISA
