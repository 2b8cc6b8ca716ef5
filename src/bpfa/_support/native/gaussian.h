// Gaussians given by their precision matrices, one for each column of phi (docs/math.md section 5): steps and draws.
#pragma once

namespace bpfa {

// LAPACK's dpotrf and BLAS' dtrsv, as SciPy hands them out.
using Potrf = void(char* uplo, int* n, double* a, int* lda, int* info);
using Trsv = void(char* uplo, char* trans, char* diag, int* n, double* a, int* lda, double* x, int* incx);

// For every column d: out_d = P_d^-1 h_d + L_d^-T noise_d, where P_d = L_d L_d^T. P is one matrix a column, or one for
// all; h, noise and out are D x K. Returns the first column whose matrix is not positive definite, or -1.
int gaussian_draws(Potrf* potrf, Trsv* trsv, int D, int K, int n_matrices, const double* P, const double* h,
                   const double* noise, double* out, int n_threads);

// For every column d: out_d = keep P_d + gain XX_d + diagonal I, in one pass over matrices that fill the memory.
// P and XX are one matrix a column, or one for all, and out has one a column where either has.
void move_precisions(int K, int n_P, const double* P, int n_XX, const double* XX, double keep, double gain,
                     double diagonal, double* out, int n_threads);

}  // namespace bpfa
