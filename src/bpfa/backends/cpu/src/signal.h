// Weights of rows integrated out: mean and variance of the entries given the features that are on
// (`bpfa.model.marginals.signal` is the specification).
#pragma once

#include <cstdint>

namespace bpfa {

// LAPACK's dpotrf and BLAS' dsyrk, dtrsm and dtrsv, as SciPy hands them out.
struct Solvers {
  void (*potrf)(char* uplo, int* n, double* a, int* lda, int* info);
  void (*syrk)(char* uplo, char* trans, int* n, int* k, double* alpha, double* a, int* lda, double* beta, double* c,
               int* ldc);
  void (*trsm)(char* side, char* uplo, char* trans, char* diag, int* m, int* n, double* alpha, double* a, int* lda,
               double* b, int* ldb);
  void (*trsv)(char* uplo, char* trans, char* diag, int* n, double* a, int* lda, double* x, int* incx);
};

struct SignalProblem {
  std::int64_t N;
  int K, D;
  const std::uint8_t* on;        // N x K
  const std::uint8_t* observed;  // N x D
  const double* phi_t;           // D x K
  const double* gram;            // phi phi^T, K x K
  const double* products;        // phi y over the observed entries, N x K
  double g_o, g_w;
  double* weights;   // N x K, zero
  double* variance;  // N x D, zero
};

// Fills the mean of the weights that are on, and the variance of what they make of the missing entries. Returns the
// number of rows whose precision matrix is not positive definite.
std::int64_t signal(const Solvers& solvers, const SignalProblem& problem, int n_threads);

}  // namespace bpfa
