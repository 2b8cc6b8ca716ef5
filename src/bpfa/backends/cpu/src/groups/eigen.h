// Eigenvectors of a symmetric matrix in single precision, for one instruction set.
#pragma once

#include "linear.h"

namespace BPFA_ISA {

// Reduces the symmetric n x n matrix A to a tridiagonal one by Householder reflections, A = Q T Q^T, and fills in the
// rows of Q^T. A is overwritten by the vectors of the reflections. `work` has room for two rows.
inline void tridiagonalise(float* A, int ld, int n, float* QT, double* diagonal, double* beside, float* work) {
  float* const p = work;
  float* const scale = work + ld;
  for (int k = 0; k + 2 < n; ++k) {
    float* const v = A + static_cast<std::size_t>(k) * ld;
    diagonal[k] = v[k];
    for (int j = 0; j <= k; ++j) v[j] = 0;
    const float first = v[k + 1];
    const float length = __builtin_sqrtf(dot(v, v, ld));
    const float alpha = first > 0 ? -length : length;
    v[k + 1] = first - alpha;
    const float square = dot(v, v, ld);
    beside[k] = alpha;
    scale[k] = square > 0 ? 2 / square : 0;
    if (scale[k] == 0) continue;
    for (int i = k + 1; i < n; ++i) p[i] = scale[k] * dot(A + static_cast<std::size_t>(i) * ld, v, ld);
    for (int j = 0; j <= k; ++j) p[j] = 0;
    for (int j = n; j < ld; ++j) p[j] = 0;
    add_multiple(p, -scale[k] / 2 * dot(p, v, ld), v, ld);
    for (int i = k + 1; i < n; ++i) {
      float* const row = A + static_cast<std::size_t>(i) * ld;
      const float vi = v[i], pi = p[i];
      for (int d = (k + 1) / kLanes * kLanes; d < ld; d += kLanes)
        store(row + d, load(row + d) - vi * load(p + d) - pi * load(v + d));
      // What has been reduced already must not come back.
      row[k] = 0;
    }
  }
  if (n >= 2) {
    diagonal[n - 2] = A[static_cast<std::size_t>(n - 2) * ld + n - 2];
    beside[n - 2] = A[static_cast<std::size_t>(n - 2) * ld + n - 1];
  }
  diagonal[n - 1] = A[static_cast<std::size_t>(n - 1) * ld + n - 1];
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < ld; ++j) QT[static_cast<std::size_t>(i) * ld + j] = 0;
    QT[static_cast<std::size_t>(i) * ld + i] = 1;
  }
  for (int k = n - 3; k >= 0; --k) {
    const float* const v = A + static_cast<std::size_t>(k) * ld;
    if (scale[k] == 0) continue;
    for (int i = k + 1; i < n; ++i) {
      float* const row = QT + static_cast<std::size_t>(i) * ld;
      add_multiple(row, -scale[k] * dot(row, v, ld), v, ld);
    }
  }
}

// Diagonalises the tridiagonal matrix by implicit QL steps, which turn the rows of Z.
inline void diagonalise(double* diagonal, double* beside, int n, float* Z, int ld) {
  constexpr double kSmallest = 1e-9;
  beside[n - 1] = 0;
  for (int l = 0; l < n; ++l) {
    for (int iteration = 0; iteration < 60; ++iteration) {
      int m = l;
      for (; m + 1 < n; ++m)
        if (__builtin_fabs(beside[m]) <= kSmallest * (__builtin_fabs(diagonal[m]) + __builtin_fabs(diagonal[m + 1])))
          break;
      if (m == l) break;
      double g = (diagonal[l + 1] - diagonal[l]) / (2 * beside[l]);
      double r = __builtin_sqrt(g * g + 1);
      g = diagonal[m] - diagonal[l] + beside[l] / (g + (g >= 0 ? r : -r));
      double sine = 1, cosine = 1, shift = 0;
      int i = m - 1;
      for (; i >= l; --i) {
        const double f = sine * beside[i], b = cosine * beside[i];
        r = __builtin_sqrt(f * f + g * g);
        beside[i + 1] = r;
        if (r == 0) {
          diagonal[i + 1] -= shift;
          beside[m] = 0;
          break;
        }
        sine = f / r;
        cosine = g / r;
        g = diagonal[i + 1] - shift;
        r = (diagonal[i] - g) * sine + 2 * cosine * b;
        shift = sine * r;
        diagonal[i + 1] = g + shift;
        g = cosine * r - b;
        float* const low = Z + static_cast<std::size_t>(i) * ld;
        float* const high = low + ld;
        const float s = static_cast<float>(sine), c = static_cast<float>(cosine);
        for (int d = 0; d < ld; d += kLanes) {
          const Vec<float> x = load(low + d), y = load(high + d);
          store(high + d, s * x + c * y);
          store(low + d, c * x - s * y);
        }
      }
      if (r == 0 && i >= l) continue;
      diagonal[l] -= shift;
      beside[l] = g;
      beside[m] = 0;
    }
  }
}

// Eigenvalues in descending order and the eigenvectors as rows of Z; A is overwritten, `beside` has n numbers, `work`
// room for two rows.
inline void symmetric_eigen(float* A, int ld, int n, double* values, float* Z, double* beside, float* work) {
  tridiagonalise(A, ld, n, Z, values, beside, work);
  diagonalise(values, beside, n, Z, ld);
  for (int i = 0; i < n; ++i) {
    int largest = i;
    for (int j = i + 1; j < n; ++j)
      if (values[j] > values[largest]) largest = j;
    if (largest == i) continue;
    const double value = values[i];
    values[i] = values[largest];
    values[largest] = value;
    float* const a = Z + static_cast<std::size_t>(i) * ld;
    float* const b = Z + static_cast<std::size_t>(largest) * ld;
    for (int d = 0; d < ld; d += kLanes) {
      const Vec<float> swapped = load(a + d);
      store(a + d, load(b + d));
      store(b + d, swapped);
    }
  }
}

// Makes the n rows of V orthonormal by a Cholesky factor of their products. `gram` has room for n rows of ld numbers,
// `inverse` for n numbers and `rows` for n pointers.
inline void orthonormalise(float* V, int ld, int n, float* gram, float* inverse, const float** rows) {
  float largest = 0;
  for (int i = 0; i < n; ++i) {
    float* const products = gram + static_cast<std::size_t>(i) * ld;
    for (int j = 0; j < ld; ++j) products[j] = 0;
    for (int j = i; j < n; ++j)
      products[j] = dot(V + static_cast<std::size_t>(i) * ld, V + static_cast<std::size_t>(j) * ld, ld);
    if (products[i] > largest) largest = products[i];
    rows[i] = V + static_cast<std::size_t>(i) * ld;
  }
  cholesky(gram, ld, n, inverse, 1e-7f * largest);
  solve(gram, ld, n, inverse, rows, V, ld);
}

}  // namespace BPFA_ISA
