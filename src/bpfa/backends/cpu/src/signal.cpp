// Mean and variance of the entries of rows, with the weights integrated out; see signal.h.
#include "signal.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "pool.h"
#include "threads.h"

namespace bpfa {

namespace {

// The smallest share of a feature's squared length that must remain after the missing columns have been subtracted.
constexpr double kSmallestShare = 1e-8;

// Does the work for one row after another, and holds the memory that a thread reuses.
struct RowSolver {
  const Solvers& solvers;
  const SignalProblem& p;
  std::vector<int> active, observed, missing;
  std::vector<double> entries, precision, right_sides;

  // Copies phi at some columns for the features that are on. The result is a matrix of features x columns, stored by
  // columns as LAPACK expects.
  void gather(const std::vector<int>& columns, double* to) const {
    for (const int d : columns) {
      const double* phi = p.phi_t + static_cast<std::size_t>(d) * p.K;
      for (const int k : active) *to++ = phi[k];
    }
  }

  // Computes the Cholesky factor U of Lambda = g_w I + g_o Phi_S Phi_S^T = U^T U, where S are the observed columns:
  // either directly, or from the Gram matrix by subtracting the missing columns. Returns false if the subtraction
  // cancelled too many digits, or if the matrix is not positive definite.
  bool factorise(int n, bool from_missing) {
    const std::vector<int>& columns = from_missing ? missing : observed;
    int n_columns = static_cast<int>(columns.size());
    precision.assign(static_cast<std::size_t>(n) * n, 0.0);
    if (from_missing)
      for (int b = 0; b < n; ++b)
        for (int a = 0; a <= b; ++a)
          precision[static_cast<std::size_t>(b) * n + a] =
              p.g_o * p.gram[static_cast<std::size_t>(active[b]) * p.K + active[a]];
    entries.resize(static_cast<std::size_t>(n) * n_columns);
    gather(columns, entries.data());
    char upper = 'U', plain = 'N';
    double factor = from_missing ? -p.g_o : p.g_o, one = 1.0;
    if (n_columns > 0)
      solvers.syrk(&upper, &plain, &n, &n_columns, &factor, entries.data(), &n, &one, precision.data(), &n);
    for (int a = 0; a < n; ++a) {
      double& diagonal = precision[static_cast<std::size_t>(a) * (n + 1)];
      const double all = p.g_o * p.gram[static_cast<std::size_t>(active[a]) * (p.K + 1)];
      // If a feature has nearly all of its length at the missing columns, the difference is mostly rounding error.
      if (from_missing && diagonal < kSmallestShare * all) return false;
      diagonal += p.g_w;
    }
    int info = 0;
    solvers.potrf(&upper, &n, precision.data(), &n, &info);
    return info == 0;
  }

  // Fills in the results of row i; returns false if its precision matrix is not positive definite.
  bool operator()(std::int64_t i) {
    active.clear();
    observed.clear();
    missing.clear();
    for (int k = 0; k < p.K; ++k)
      if (p.on[i * p.K + k]) active.push_back(k);
    for (int d = 0; d < p.D; ++d) (p.observed[i * p.D + d] ? observed : missing).push_back(d);
    int n = static_cast<int>(active.size());
    if (n == 0) return true;
    // Subtracting is quicker if fewer columns are missing than observed. Where it loses too many digits, the sum over
    // the observed columns, which cancels nothing, is taken instead.
    if (!(missing.size() < observed.size() && factorise(n, true)) && !factorise(n, false)) return false;

    // Solve for U^-T b and for U^-T phi at each missing entry. The variance of a missing entry is the squared length of
    // the latter.
    int n_right = 1 + static_cast<int>(missing.size());
    right_sides.resize(static_cast<std::size_t>(n) * n_right);
    for (int a = 0; a < n; ++a) right_sides[a] = p.g_o * p.products[i * p.K + active[a]];
    gather(missing, right_sides.data() + n);
    char upper = 'U', plain = 'N', transposed = 'T', left = 'L';
    double one = 1.0;
    solvers.trsm(&left, &upper, &transposed, &plain, &n, &n_right, &one, precision.data(), &n, right_sides.data(), &n);
    for (std::size_t j = 0; j < missing.size(); ++j) {
      double sum = 0;
      for (int a = 0; a < n; ++a) sum += right_sides[(j + 1) * n + a] * right_sides[(j + 1) * n + a];
      p.variance[i * p.D + missing[j]] = sum;
    }
    int stride = 1;
    solvers.trsv(&upper, &plain, &plain, &n, precision.data(), &n, right_sides.data(), &stride);
    for (int a = 0; a < n; ++a) p.weights[i * p.K + active[a]] = right_sides[a];
    return true;
  }
};

}  // namespace

std::int64_t signal(const Solvers& solvers, const SignalProblem& problem, int n_threads) {
  n_threads = static_cast<int>(std::min<std::int64_t>(thread_count(n_threads), std::max<std::int64_t>(problem.N, 1)));
  // Rows are taken in groups, since a single one may be less work than taking it.
  constexpr std::int64_t kRows = 64;
  std::vector<RowSolver> solvers_of_workers(n_threads, RowSolver{solvers, problem, {}, {}, {}, {}, {}, {}});
  std::atomic<std::int64_t> failed{0};
  parallel_for(n_threads, (problem.N + kRows - 1) / kRows, [&](std::int64_t group, int worker) {
    RowSolver& row = solvers_of_workers[worker];
    const std::int64_t last = std::min(problem.N, (group + 1) * kRows);
    for (std::int64_t i = group * kRows; i < last; ++i) failed += !row(i);
  });
  return failed;
}

}  // namespace bpfa
