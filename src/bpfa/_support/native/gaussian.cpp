// Draws from Gaussians that are given by their precision matrices, and steps of those matrices; see gaussian.h.
#include "gaussian.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pool.h"
#include "threads.h"

namespace bpfa {

namespace {

// The work that pays for waking a thread: operations of the draws, and numbers that a step moves. Either takes some
// hundred microseconds.
constexpr double kDrawOperations = 4e6, kMovedNumbers = 1e5;

// The number of threads, of those that may be used, that have enough to do.
int useful_threads(int n_threads, double work, double work_per_thread) {
  return static_cast<int>(std::min<double>(n_threads, std::max(1.0, work / work_per_thread)));
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

// out = U^-1 (U^-T h + noise) = P^-1 h + U^-1 noise, which is a draw from N(P^-1 h, P^-1) if the noise is standard
// normal.
void solve(Trsv* trsv, int K, double* U, const double* h, const double* noise, double* out) {
  char upper = 'U', transposed = 'T', plain = 'N';
  int one = 1;
  std::copy(h, h + K, out);
  trsv(&upper, &transposed, &plain, &K, U, &K, out, &one);
  for (int k = 0; k < K; ++k) out[k] += noise[k];
  trsv(&upper, &plain, &plain, &K, U, &K, out, &one);
}

}  // namespace

int gaussian_draws(Potrf* potrf, Trsv* trsv, int D, int K, int n_matrices, const double* P, const double* h,
                   const double* noise, double* out, int n_threads) {
  // Each matrix takes about K^3 operations to factorise, and each column two triangular solutions.
  n_threads = useful_threads(std::min(thread_count(n_threads), D), 1.0 * D * K * K * (K + 6), kDrawOperations);
  const std::size_t size = static_cast<std::size_t>(K) * K;
  // A matrix that all columns share is factorised once, before the threads start.
  std::vector<double> shared_factor(n_matrices == 1 ? size : 0);
  if (n_matrices == 1 && !factorise(potrf, K, P, shared_factor.data())) return 0;
  std::atomic<int> first_bad{D};
  std::vector<std::vector<double>> own_factors(n_threads);
  parallel_for(n_threads, D, [&](std::int64_t column, int worker) {
    const int d = static_cast<int>(column);
    std::vector<double>& own_factor = own_factors[worker];
    if (n_matrices > 1) own_factor.resize(size);
    double* U = n_matrices == 1 ? shared_factor.data() : own_factor.data();
    if (n_matrices > 1 && !factorise(potrf, K, P + d * size, U)) {
      // Several threads may meet a matrix that fails. The smallest column is kept, so that the result does not depend
      // on which thread is first.
      int smallest = first_bad;
      while (d < smallest && !first_bad.compare_exchange_weak(smallest, d)) {
      }
      return;
    }
    const std::size_t offset = static_cast<std::size_t>(d) * K;
    solve(trsv, K, U, h + offset, noise + offset, out + offset);
  });
  return first_bad < D ? first_bad.load() : -1;
}

void move_precisions(int K, int n_P, const double* P, int n_XX, const double* XX, double keep, double gain,
                     double diagonal, double* out, int n_threads) {
  const int n_matrices = std::max(n_P, n_XX);
  const std::size_t size = static_cast<std::size_t>(K) * K;
  n_threads = useful_threads(std::min(thread_count(n_threads), n_matrices), 1.0 * n_matrices * size, kMovedNumbers);
  parallel_for(n_threads, n_matrices, [&](std::int64_t d, int) {
    const double* from = P + (n_P == 1 ? 0 : d * size);
    const double* add = XX + (n_XX == 1 ? 0 : d * size);
    double* to = out + d * size;
    for (std::size_t i = 0; i < size; ++i) to[i] = keep * from[i] + gain * add[i];
    for (int k = 0; k < K; ++k) to[k * (static_cast<std::size_t>(K) + 1)] += diagonal;
  });
}

}  // namespace bpfa
