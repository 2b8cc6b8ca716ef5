// Draws from Gaussians that are given by their precision matrices, and steps of those matrices; see gaussian.h.
#include "gaussian.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "pool.h"
#include "threads.h"

namespace bpfa {

namespace {

// The work that pays for waking a thread: operations of the draws, and numbers that a step moves. Either takes some
// ten microseconds at the least.
constexpr double kDrawOperations = 1e6, kMovedNumbers = 1e5;
// Columns of the draws that a thread takes at a time. What they write shares few cache lines with other columns.
constexpr int kColumns = 8;

// The number of threads, of those that may be used, that have enough to do. How many may be used is only asked if one
// does not suffice, because the answer takes as long as a small piece of work.
int useful_threads(int asked, int n_tasks, double work, double work_per_thread) {
  const double most = std::min<double>(n_tasks, work / work_per_thread);
  return most < 2 ? 1 : static_cast<int>(std::min<double>(thread_count(asked), most));
}

// Computes the Cholesky factor of P; returns false if P is not positive definite. LAPACK stores matrices by columns and
// we store them by rows, so our lower triangular factor is an upper triangular matrix U to it, with U^T U = P.
bool factorise(Potrf* potrf, int K, const double* P, double* U) {
  std::copy(P, P + static_cast<std::size_t>(K) * K, U);
  char upper = 'U';
  int info = 0;
  potrf(&upper, &K, U, &K, &info);
  return info == 0;
}

// Turns x = h into U^-1 (U^-T h + noise) = P^-1 h + U^-1 noise, which is a draw from N(P^-1 h, P^-1) if the noise is
// standard normal. The noise is a column of a matrix with D columns.
void solve(Trsv* trsv, int K, int D, double* U, const double* noise, double* x) {
  char upper = 'U', transposed = 'T', plain = 'N';
  int one = 1;
  trsv(&upper, &transposed, &plain, &K, U, &K, x, &one);
  for (int k = 0; k < K; ++k) x[k] += noise[static_cast<std::size_t>(k) * D];
  trsv(&upper, &plain, &plain, &K, U, &K, x, &one);
}

}  // namespace

int gaussian_draws(Potrf* potrf, Trsv* trsv, int D, int K, int n_matrices, const double* P, const double* h,
                   const double* noise, double* out, int n_threads) {
  // Each matrix takes about K^3 operations to factorise, and each column two triangular solutions.
  n_threads = useful_threads(n_threads, D, 1.0 * D * K * K * (K + 6), kDrawOperations);
  const std::size_t size = static_cast<std::size_t>(K) * K;
  // A matrix that all columns share is factorised once, before the threads start.
  std::vector<double> shared_factor(n_matrices == 1 ? size : 0);
  if (n_matrices == 1 && !factorise(potrf, K, P, shared_factor.data())) return 0;
  std::atomic<int> first_bad{D};
  // Of every thread: a column, and the factor of its matrix.
  std::vector<std::vector<double>> scratch(n_threads);
  parallel_for(n_threads, (D + kColumns - 1) / kColumns, [&](std::int64_t block, int worker) {
    std::vector<double>& own = scratch[worker];
    own.resize(K + (n_matrices > 1 ? size : 0));
    double* const x = own.data();
    double* const U = n_matrices == 1 ? shared_factor.data() : x + K;
    const int first = static_cast<int>(block) * kColumns;
    for (int d = first; d < std::min(first + kColumns, D); ++d) {
      if (n_matrices > 1 && !factorise(potrf, K, P + d * size, U)) {
        // Several threads may meet a matrix that fails. The smallest column is kept, so that the result does not depend
        // on which thread is first.
        int smallest = first_bad;
        while (d < smallest && !first_bad.compare_exchange_weak(smallest, d)) {
        }
        return;
      }
      for (int k = 0; k < K; ++k) x[k] = h[static_cast<std::size_t>(k) * D + d];
      solve(trsv, K, D, U, noise + d, x);
      for (int k = 0; k < K; ++k) out[static_cast<std::size_t>(k) * D + d] = x[k];
    }
  });
  return first_bad < D ? first_bad.load() : -1;
}

bool move_precisions(int K, int n_P, const double* P, int n_XX, const double* XX, double keep, double gain,
                     double diagonal, double* out, int n_threads) {
  const int n_matrices = std::max(n_P, n_XX);
  const std::size_t size = static_cast<std::size_t>(K) * K;
  n_threads = useful_threads(n_threads, n_matrices, 1.0 * n_matrices * size, kMovedNumbers);
  std::atomic<bool> finite{true};
  parallel_for(n_threads, n_matrices, [&](std::int64_t d, int) {
    const double* from = P + (n_P == 1 ? 0 : d * size);
    const double* add = XX + (n_XX == 1 ? 0 : d * size);
    double* to = out + d * size;
    if (!move_numbers(size, from, add, keep, gain, to)) finite = false;
    for (int k = 0; k < K; ++k) to[k * (static_cast<std::size_t>(K) + 1)] += diagonal;
  });
  return finite;
}

bool move_numbers(std::size_t n, const double* from, const double* add, double keep, double gain, double* out) {
  std::int64_t n_bad = 0;
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = keep * from[i] + gain * add[i];
    // Neither infinity nor NaN compares so.
    n_bad += !(std::fabs(out[i]) <= std::numeric_limits<double>::max());
  }
  return n_bad == 0;
}

}  // namespace bpfa
