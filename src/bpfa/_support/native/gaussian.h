// Gaussians over the features, one for each column of phi and each given by its precision matrix (docs/math.md section
// 5): draws from them, and steps of the matrices.
#pragma once

#include <cstddef>

namespace bpfa {

// The signatures of LAPACK's dpotrf and of BLAS's dtrsv, as SciPy exports them.
using Potrf = void(char* uplo, int* n, double* a, int* lda, int* info);
using Trsv = void(char* uplo, char* trans, char* diag, int* n, double* a, int* lda, double* x, int* incx);

// For every column d: out_d = P_d^-1 h_d + L_d^-T noise_d, where P_d = L_d L_d^T. P holds one matrix for each column
// (n_matrices = D), or a single one that all columns share (n_matrices = 1); h, noise and out are K x D. Returns the
// first column whose matrix is not positive definite, or -1 if there is none.
int gaussian_draws(Potrf* potrf, Trsv* trsv, int D, int K, int n_matrices, const double* P, const double* h,
                   const double* noise, double* out, int n_threads);

// For every column d: out_d = keep P_d + gain XX_d + diagonal I. All of it is done in one pass, because the matrices
// may be larger than any cache and reading them is what takes the time. P and XX each hold one matrix for each column,
// or a single one that all columns share; out holds as many matrices as the larger of the two. Returns whether all
// numbers in `out` are finite.
bool move_precisions(int K, int n_P, const double* P, int n_XX, const double* XX, double keep, double gain,
                     double diagonal, double* out, int n_threads);

// out = keep from + gain add, for n numbers; returns whether all of the results are finite.
bool move_numbers(std::size_t n, const double* from, const double* add, double keep, double gain, double* out);

}  // namespace bpfa
