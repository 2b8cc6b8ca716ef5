// A row given that it is of one kind, with the precision matrix of the kind: docs/math.md section 23. In double
// precision, for one instruction set.
#pragma once

#include <cmath>

#include "row_members.h"

namespace BPFA_ISA {

using bpfa::groups::KindResult;
using bpfa::groups::KindSum;
using bpfa::groups::RowKind;
using bpfa::groups::RowQuery;

// Splits a row of deviations from the mean of a kind into what is observed and what is not, and factorises the
// precision of the latter. Of the entries that are not observed, those to be scored come last.
class KindRow {
 public:
  static std::size_t numbers(int D) { return static_cast<std::size_t>(D) * D * 2 + 4 * static_cast<std::size_t>(D); }

  KindRow(int D, double* memory)
      : D_(D),
        deviation_(memory),
        gradient_(deviation_ + D),
        missing_mean_(gradient_ + D),
        root_(missing_mean_ + 2 * D),
        inverse_(root_ + static_cast<std::size_t>(D) * D) {}

  double log_root;  // sum of the logarithms of the diagonal of the root of the precision
  double square;    // squared distance of the observed entries

  const std::int32_t* missing() const { return missing_; }
  int n_missing() const { return n_missing_; }
  int n_rest() const { return n_rest_; }
  const double* deviation() const { return deviation_; }
  // Expected deviations of the entries that are not observed.
  const double* expected() const { return missing_mean_; }
  const double* root() const { return root_; }
  // Inverse of the root, whose columns give the scale matrix of the entries that are not observed.
  const double* inverse() const { return inverse_; }

  // `order` lists the entries that are not observed, n_rest that are not scored first.
  void given(const RowKind& kind, const float* values, const std::uint8_t* observed, const std::int32_t* order,
             int n_missing, int n_rest) {
    missing_ = order, n_missing_ = n_missing, n_rest_ = n_rest;
    for (int d = 0; d < D_; ++d) gradient_[d] = 0;
    for (int d = 0; d < D_; ++d) {
      deviation_[d] = observed[d] ? values[d] - kind.mean[d] : 0.0;
      if (deviation_[d] == 0.0) continue;
      const double factor = deviation_[d];
      const double* const row = kind.precision + static_cast<std::size_t>(d) * D_;
      for (int e = 0; e < D_; ++e) gradient_[e] += factor * row[e];
    }
    square = 0;
    for (int d = 0; d < D_; ++d) square += deviation_[d] * gradient_[d];
    factorise(kind.precision);
    // Expected deviations solve precision x = -gradient.
    double* const x = missing_mean_;
    for (int i = 0; i < n_missing; ++i) {
      double sum = -gradient_[order[i]];
      for (int j = 0; j < i; ++j) sum -= root_[at(i, j)] * x[j];
      x[i] = sum / root_[at(i, i)];
      square -= x[i] * x[i];
    }
    for (int i = n_missing - 1; i >= 0; --i) {
      double sum = x[i];
      for (int j = i + 1; j < n_missing; ++j) sum -= root_[at(j, i)] * x[j];
      x[i] = sum / root_[at(i, i)];
    }
    if (square < 0) square = 0;
  }

  // The inverse of the root, a lower triangle.
  void invert() {
    for (int j = 0; j < n_missing_; ++j) {
      inverse_[at(j, j)] = 1 / root_[at(j, j)];
      for (int i = j + 1; i < n_missing_; ++i) {
        double sum = 0;
        for (int k = j; k < i; ++k) sum -= root_[at(i, k)] * inverse_[at(k, j)];
        inverse_[at(i, j)] = sum / root_[at(i, i)];
      }
    }
  }

 private:
  int D_;
  double *deviation_, *gradient_, *missing_mean_, *root_, *inverse_;
  const std::int32_t* missing_ = nullptr;
  int n_missing_ = 0, n_rest_ = 0;

  std::size_t at(int i, int j) const { return static_cast<std::size_t>(i) * n_missing_ + j; }

  void factorise(const double* precision) {
    log_root = 0;
    for (int i = 0; i < n_missing_; ++i)
      for (int j = 0; j <= i; ++j) {
        double sum = precision[static_cast<std::size_t>(missing_[i]) * D_ + missing_[j]];
        for (int k = 0; k < j; ++k) sum -= root_[at(i, k)] * root_[at(j, k)];
        if (i != j) {
          root_[at(i, j)] = sum / root_[at(j, j)];
        } else {
          root_[at(i, i)] = std::sqrt(sum);
          log_root += std::log(root_[at(i, i)]);
        }
      }
  }
};

// What a kind says of a row.
inline void kind_row(int D, const RowKind& kind, const RowQuery& query, const std::int32_t* order, int n_missing,
                     int n_rest, KindResult& result, double* memory) {
  KindRow row(D, memory);
  row.given(kind, query.values, query.observed, order, n_missing, n_rest);
  int n_observed = D - n_missing;
  result.seen = kind.freedom + row.square;
  result.log_root = row.log_root;
  double both = result.seen, log_diagonal = 0;
  const double* const root = row.root();
  for (int j = n_rest; j < n_missing; ++j) {
    double sum = 0;
    for (int i = j; i < n_missing; ++i)
      sum += root[static_cast<std::size_t>(i) * n_missing + j] *
             (query.values[order[i]] - kind.mean[order[i]] - row.expected()[i]);
    both += sum * sum;
    log_diagonal -= std::log(root[static_cast<std::size_t>(j) * n_missing + j]);
  }
  result.both = both, result.log_diagonal = log_diagonal;
  if (result.mean == nullptr) return;
  for (int d = 0; d < D; ++d) result.mean[d] = query.values[d], result.square_scale[d] = 0;
  row.invert();
  const double wider = result.seen / (kind.freedom + n_observed);
  for (int i = 0; i < n_missing; ++i) {
    double sum = 0;
    for (int k = i; k < n_missing; ++k) {
      const double entry = row.inverse()[static_cast<std::size_t>(k) * n_missing + i];
      sum += entry * entry;
    }
    result.mean[order[i]] = static_cast<float>(kind.mean[order[i]] + row.expected()[i]);
    result.square_scale[order[i]] = static_cast<float>(sum * wider);
  }
}

// Adds a row, which belongs to a kind by some share, to the sums of the kind.
inline void add_to_kind(int D, const RowKind& kind, const float* values, const std::uint8_t* observed,
                        const std::int32_t* order, int n_missing, double share, KindSum& sum, double* memory) {
  KindRow row(D, memory);
  row.given(kind, values, observed, order, n_missing, n_missing);
  double* const whole = const_cast<double*>(row.deviation());
  for (int i = 0; i < n_missing; ++i) whole[order[i]] = row.expected()[i];
  for (int d = 0; d < D; ++d) {
    const double factor = share * whole[d];
    sum.first[d] += factor;
    double* const to = sum.second + static_cast<std::size_t>(d) * D;
    for (int e = 0; e < D; ++e) to[e] += factor * whole[e];
  }
  if (!n_missing) return;
  row.invert();
  const double wider = share * (kind.freedom + row.square) / (kind.freedom + D - n_missing);
  for (int i = 0; i < n_missing; ++i)
    for (int j = 0; j < n_missing; ++j) {
      double product = 0;
      for (int k = i > j ? i : j; k < n_missing; ++k)
        product += row.inverse()[static_cast<std::size_t>(k) * n_missing + i] *
                   row.inverse()[static_cast<std::size_t>(k) * n_missing + j];
      sum.second[static_cast<std::size_t>(order[i]) * D + order[j]] += wider * product;
    }
}

}  // namespace BPFA_ISA
