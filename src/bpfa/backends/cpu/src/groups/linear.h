// Products and factorisations of small matrices in single precision, for one instruction set. Matrices are stored by
// rows, which begin at multiples of `ld` numbers; ld is a multiple of kColumnPadding, and what lies beyond the last
// column is zero. All sums have a fixed order.
#pragma once

#include "problem.h"
#include "vec.h"

namespace BPFA_ISA {

constexpr int kLanes = lanes<float>;
// How many rows of a product are computed at once, so that the sums stay in registers.
constexpr int kTileRows = BPFA_BYTES == 64 ? 8 : 4;

typedef float UnalignedVec __attribute__((vector_size(BPFA_BYTES), aligned(4), may_alias));
BPFA_INLINE Vec<float> load_unaligned(const float* p) { return *reinterpret_cast<const UnalignedVec*>(p); }
BPFA_INLINE void store_unaligned(float* p, Vec<float> v) { *reinterpret_cast<UnalignedVec*>(p) = v; }

BPFA_INLINE float dot(const float* a, const float* b, int ld) {
  Vec<float> sum{};
  for (int d = 0; d < ld; d += kLanes) sum += load(a + d) * load(b + d);
  return horizontal_sum<float>(sum);
}

BPFA_INLINE void add_multiple(float* to, float factor, const float* from, int ld) {
  for (int d = 0; d < ld; d += kLanes) store(to + d, load(to + d) + factor * load(from + d));
}

// A tile of C += factor * A' B, where element (i, k) of A' is a[i * row_step + k * inner_step].
template <int Rows, int Vectors>
BPFA_INLINE void add_tile(float* C, int ld, const float* a, int row_step, int inner_step, const float* b, int n_inner,
                          float factor) {
  Vec<float> sum[Rows][Vectors] = {};
  for (int k = 0; k < n_inner; ++k) {
    Vec<float> row[Vectors];
    for (int v = 0; v < Vectors; ++v) row[v] = load(b + static_cast<std::size_t>(k) * ld + v * kLanes);
    for (int i = 0; i < Rows; ++i) {
      const float scale = a[static_cast<std::size_t>(i) * row_step + static_cast<std::size_t>(k) * inner_step];
      for (int v = 0; v < Vectors; ++v) sum[i][v] += scale * row[v];
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int v = 0; v < Vectors; ++v) {
      float* const at = C + static_cast<std::size_t>(i) * ld + v * kLanes;
      store(at, load(at) + factor * sum[i][v]);
    }
}

template <int Rows>
BPFA_INLINE void add_tiles(float* C, int ld, const float* a, int row_step, int inner_step, const float* b, int n_inner,
                           int first_column, float factor) {
  int j = first_column;
  for (; j + 2 * kLanes <= ld; j += 2 * kLanes)
    add_tile<Rows, 2>(C + j, ld, a, row_step, inner_step, b + j, n_inner, factor);
  for (; j < ld; j += kLanes) add_tile<Rows, 1>(C + j, ld, a, row_step, inner_step, b + j, n_inner, factor);
}

// C += A B, with A n_rows x n_inner (rows `a_ld` apart) and B n_inner x ld.
inline void add_product(float* C, const float* A, int a_ld, const float* B, int ld, int n_rows, int n_inner) {
  int i = 0;
  for (; i + kTileRows <= n_rows; i += kTileRows)
    add_tiles<kTileRows>(C + static_cast<std::size_t>(i) * ld, ld, A + static_cast<std::size_t>(i) * a_ld, a_ld, 1, B,
                         n_inner, 0, 1.0f);
  for (; i < n_rows; ++i)
    add_tiles<1>(C + static_cast<std::size_t>(i) * ld, ld, A + static_cast<std::size_t>(i) * a_ld, a_ld, 1, B, n_inner,
                 0, 1.0f);
}

// The upper triangle of C += factor A^T B, where the product is known to be symmetric; A and B are n_inner x ld.
inline void add_symmetric_product(float* C, const float* A, const float* B, int ld, int n_inner, float factor) {
  for (int i = 0; i < ld; i += kTileRows)
    add_tiles<kTileRows>(C + static_cast<std::size_t>(i) * ld, ld, A + i, 1, ld, B, n_inner, i / kLanes * kLanes,
                         factor);
}

inline void copy_upper_to_lower(float* C, int ld, int n) {
  for (int i = 1; i < n; ++i)
    for (int j = 0; j < i; ++j) C[static_cast<std::size_t>(i) * ld + j] = C[static_cast<std::size_t>(j) * ld + i];
}

// Replaces the upper triangle of A by its factor U, A = U^T U, and fills in the inverse of U's diagonal. A diagonal
// that rounding has made too small is raised, so that there is always a factor.
inline void cholesky(float* A, int ld, int n, float* inverse_diagonal, float smallest) {
  for (int k = 0; k < n; ++k) {
    float* const pivot_row = A + static_cast<std::size_t>(k) * ld;
    const float pivot = pivot_row[k] > smallest ? pivot_row[k] : smallest;
    const float inverse = 1.0f / __builtin_sqrtf(pivot);
    inverse_diagonal[k] = inverse;
    const int first = k / kLanes * kLanes;
    for (int j = first; j < n; j += kLanes) store(pivot_row + j, load(pivot_row + j) * inverse);
    pivot_row[k] = pivot * inverse;
    for (int i = k + 1; i < n; ++i) {
      float* const row = A + static_cast<std::size_t>(i) * ld;
      const float factor = pivot_row[i];
      for (int j = i / kLanes * kLanes; j < n; j += kLanes)
        store(row + j, load(row + j) - factor * load(pivot_row + j));
    }
  }
}

template <int Vectors>
BPFA_INLINE void solve_columns(const float* U, int u_ld, int n, const float* inverse_diagonal,
                               const float* const* right_sides, float* B, int ld, int first) {
  for (int i = 0; i < n; ++i) {
    Vec<float> sum[Vectors];
    for (int v = 0; v < Vectors; ++v) sum[v] = load(right_sides[i] + first + v * kLanes);
    for (int j = 0; j < i; ++j) {
      const float factor = U[static_cast<std::size_t>(j) * u_ld + i];
      const float* const row = B + static_cast<std::size_t>(j) * ld + first;
      for (int v = 0; v < Vectors; ++v) sum[v] -= factor * load(row + v * kLanes);
    }
    for (int v = 0; v < Vectors; ++v)
      store(B + static_cast<std::size_t>(i) * ld + first + v * kLanes, sum[v] * inverse_diagonal[i]);
  }
}

// B = U^-T R, where row i of R, of ld numbers, is at right_sides[i]. B may be R itself.
inline void solve(const float* U, int u_ld, int n, const float* inverse_diagonal, const float* const* right_sides,
                  float* B, int ld) {
  int first = 0;
  for (; first + 4 * kLanes <= ld; first += 4 * kLanes)
    solve_columns<4>(U, u_ld, n, inverse_diagonal, right_sides, B, ld, first);
  for (; first < ld; first += kLanes) solve_columns<1>(U, u_ld, n, inverse_diagonal, right_sides, B, ld, first);
}

// x = U^-T x for a single vector, then, if `both`, U^-1 of it.
inline void solve_vector(const float* U, int u_ld, int n, const float* inverse_diagonal, float* x, bool both) {
  for (int i = 0; i < n; ++i) {
    float sum = x[i];
    for (int j = 0; j < i; ++j) sum -= U[static_cast<std::size_t>(j) * u_ld + i] * x[j];
    x[i] = sum * inverse_diagonal[i];
  }
  if (!both) return;
  for (int i = n - 1; i >= 0; --i) {
    float sum = x[i];
    for (int j = i + 1; j < n; ++j) sum -= U[static_cast<std::size_t>(i) * u_ld + j] * x[j];
    x[i] = sum * inverse_diagonal[i];
  }
}

}  // namespace BPFA_ISA
