// Draws from Gaussians given by their precision matrices, one for each column of phi (MATH.md section 5).
#pragma once

namespace bpfa {

// LAPACK's dpotrf and BLAS' dtrsv, as SciPy hands them out.
using Potrf = void(char* uplo, int* n, double* a, int* lda, int* info);
using Trsv = void(char* uplo, char* trans, char* diag, int* n, double* a, int* lda, double* x, int* incx);

// For every column d: out_d = P_d^-1 h_d + L_d^-T noise_d, where P_d = L_d L_d^T. P is one matrix a column, or one for
// all; h, noise and out are D x K. Returns the first column whose matrix is not positive definite, or -1.
int gaussian_draws(Potrf* potrf, Trsv* trsv, int D, int K, int n_matrices, const double* P, const double* h,
                   const double* noise, double* out, int n_threads);

}  // namespace bpfa
