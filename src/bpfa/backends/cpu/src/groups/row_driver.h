// Groups of like rows of a table on all threads: finding the rows that are most like given ones, and predicting these
// (docs/math.md section 23).
#pragma once

#include <cstdint>

#include "row_members.h"

namespace bpfa::groups {

// The rows to be predicted, n x D each. Where an entry is neither observed nor scored, its value is not used.
struct RowQueries {
  std::int64_t n;
  const float* values;
  const std::uint8_t *observed, *scored;
};

// Fills in the kept rows that are most like each query, n x sizes[n_sizes - 1]. The first sizes[i] of them are the
// nearest, for every i. `columns` are the kept values with the columns as rows. Of the n_twins nearest rows, the first
// that equals the query, up to the tolerance, in all entries that both have observed is left out; see
// backends/row_groups.py.
void nearest_rows(const KeptRows& kept, const float* columns, const RowQueries& queries, const std::int32_t* sizes,
                  int n_sizes, int n_twins, float tolerance, std::int32_t* nearest, int n_threads);

// Fills in what every group says of every query: n_groups x n x D, and n_groups x n for the three sums of RowResult.
void student_rows(const KeptRows& kept, const RowQueries& queries, const std::int32_t* nearest, int n_nearest,
                  const RowGroups& groups, float* mean, float* square_scale, double* seen, double* both,
                  double* log_diagonal, int n_threads);

// Kinds of rows, each a Student t distribution: the means are n_kinds x D, the precisions n_kinds x D x D.
struct RowKinds {
  int D, n_kinds;
  const double *mean, *precision, *freedom;

  RowKind kind(int k) const {
    return {mean + static_cast<std::int64_t>(k) * D, precision + static_cast<std::int64_t>(k) * D * D, freedom[k]};
  }
};

// Fills in what every kind says of every query: n_kinds x n x D, and n_kinds x n for each of the four sums of
// KindResult. Without `mean`, the sums alone.
void kind_rows(const RowKinds& kinds, const RowQueries& queries, float* mean, float* square_scale, double* sums,
               int n_threads);

// Fills in the sums of every kind over all rows: `shares` is n_kinds x n, `first` n_kinds x D, `second` n_kinds x D x
// D. The sums of one kind are taken by one thread, in the order of the rows.
void kind_sums(const RowKinds& kinds, const RowQueries& rows, const double* shares, double* first, double* second,
               int n_threads);

}  // namespace bpfa::groups
