// What the kernels know of groups of like rows of a table (docs/math.md section 23).
#pragma once

#include <cstddef>
#include <cstdint>

namespace bpfa::groups {

// A sample of the rows of a fit, completed by the model of the whole table.
struct KeptRows {
  std::int64_t N;
  int D;
  const float* values;    // N x D
  const float* variance;  // N x D, 0 where an entry is observed
};

// The groups that every row has, and the prior that they share.
struct RowGroups {
  int D, DP;  // columns, and columns with padding
  int n_groups;
  const std::int32_t* members;  // ascending
  const float* prior_rows;
  const float* covariance;  // D x D, of the model of the whole table
  float mean_rows, scale_rows, correlation_share;
};

// A row that is to be predicted. `values` are known where an entry is observed or scored.
struct RowQuery {
  const float* values;
  const std::uint8_t *observed, *scored;
  const std::int32_t* nearest;
};

// What one group says of a row. Degrees of freedom are those of the whole row.
struct RowResult {
  float *mean, *square_scale;  // D
  double seen, both;    // degrees of freedom plus the squared distance of the observed entries, and of the scored
  double log_diagonal;  // of the Cholesky factor of the scale matrix, over the scored entries
};

// A kind of rows: a Student t distribution.
struct RowKind {
  const double* mean;       // D
  const double* precision;  // D x D, the inverse of the scale matrix
  double freedom;
};

// What a kind says of a row. Mean and squared scale are left out if they are null.
struct KindResult {
  float *mean, *square_scale;       // D
  double seen, both, log_diagonal;  // as in RowResult
  double log_root;  // of the precision of the entries that are not observed: half the logarithm of its determinant
};

// Sums over the rows of a kind of their completed deviations from its mean, and of the products of these.
struct KindSum {
  double *first, *second;  // D, and D x D
};

struct RowKernels {
  // Squared distances over the given columns between a row and rows `from` to `to` of a table stored by columns.
  void (*distances)(const float* columns, std::int64_t N, const std::int32_t* observed, int n_observed,
                    const float* query, std::int64_t from, std::int64_t to, float* result);
  std::size_t (*scratch_bytes)(int D);
  // Fills in what every group says of a row: `results` has one for each group.
  void (*student)(const KeptRows& kept, const RowGroups& groups, const RowQuery& query, RowResult* results,
                  void* scratch);
  // How many numbers of double precision the next two need to work with.
  std::size_t (*kind_numbers)(int D);
  // Fills in what a kind says of a row whose entries that are not observed are listed, the first n_rest of them not
  // scored.
  void (*kind_row)(int D, const RowKind& kind, const RowQuery& query, const std::int32_t* missing, int n_missing,
                   int n_rest, KindResult& result, double* memory);
  // Adds a row to the sums of a kind.
  void (*add_to_kind)(int D, const RowKind& kind, const float* values, const std::uint8_t* observed,
                      const std::int32_t* missing, int n_missing, double share, KindSum& sum, double* memory);
};

}  // namespace bpfa::groups
