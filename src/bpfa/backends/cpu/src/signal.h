// Mean and variance of the entries of rows, given which features are on and with the weights integrated out. The
// function `bpfa.model.marginals.signal` is the specification.
#pragma once

#include <cstdint>

namespace bpfa {

// LAPACK's dpotrf and BLAS's dsyrk, dtrsm and dtrsv, as SciPy exports them.
struct Solvers {
  void (*potrf)(char* uplo, int* n, double* a, int* lda, int* info);
  void (*syrk)(char* uplo, char* trans, int* n, int* k, double* alpha, double* a, int* lda, double* beta, double* c,
               int* ldc);
  void (*trsm)(char* side, char* uplo, char* trans, char* diag, int* m, int* n, double* alpha, double* a, int* lda,
               double* b, int* ldb);
  void (*trsv)(char* uplo, char* trans, char* diag, int* n, double* a, int* lda, double* x, int* incx);
};

// The input and the output; `weights` and `variance` must be zero at the start.
struct SignalProblem {
  std::int64_t N;
  int K, D;
  const std::uint8_t* on;        // N x K: whether a feature is on
  const std::uint8_t* observed;  // N x D
  const double* phi_t;           // D x K
  const double* gram;            // phi phi^T, K x K
  const double* products;        // phi y over the observed entries, N x K
  double g_o, g_w;
  double* weights;   // N x K
  double* variance;  // N x D
};

// Fills in the means of the weights that are on, and the variances of the missing entries without noise. Returns the
// number of rows whose precision matrix is not positive definite.
std::int64_t signal(const Solvers& solvers, const SignalProblem& problem, int n_threads);

}  // namespace bpfa
