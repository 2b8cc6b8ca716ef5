// Groups of like rows of a table, and kinds of rows (docs/math.md section 23). A block of threads predicts one row
// after another, in double precision, with matrices in the memory of the device. Every sum has a fixed order.
#include "common.cuh"

typedef unsigned char flag;

// A distance and the number of the row that has it, in one number that sorts by both; distances are not negative. A
// thread compares one kept row, of which the columns are stored as rows, with the query of its block.
extern "C" __global__ void row_keys(const float* columns, int n_kept, int D, const float* values, const flag* observed,
                                    unsigned long long* keys) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int64 query = blockIdx.y;
  if (row >= n_kept) return;
  float sum = 0;
  for (int d = 0; d < D; ++d) {
    if (!observed[query * D + d]) continue;
    const float difference = columns[static_cast<int64>(d) * n_kept + row] - values[query * D + d];
    sum += difference * difference;
  }
  keys[query * n_kept + row] = static_cast<unsigned long long>(__float_as_uint(sum)) << 32 | static_cast<unsigned>(row);
}

// The lower factor of a symmetric n x n matrix, in place of its lower triangle.
__device__ inline void cholesky(double* matrix, int n) {
  for (int k = 0; k < n; ++k) {
    double* const pivot = matrix + static_cast<int64>(k) * n;
    __syncthreads();
    if (threadIdx.x == 0) pivot[k] = sqrt(fmax(pivot[k], 1e-300));
    __syncthreads();
    for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x) matrix[static_cast<int64>(i) * n + k] /= pivot[k];
    __syncthreads();
    const int left = n - k - 1;
    for (int64 at = threadIdx.x; at < static_cast<int64>(left) * left; at += blockDim.x) {
      const int i = k + 1 + static_cast<int>(at / left), j = k + 1 + static_cast<int>(at % left);
      if (j <= i)
        matrix[static_cast<int64>(i) * n + j] -=
            matrix[static_cast<int64>(i) * n + k] * matrix[static_cast<int64>(j) * n + k];
    }
  }
  __syncthreads();
}

// Solves L x = b for the first `known` of n rows, in place of b.
__device__ inline void solve_lower(const double* factor, int n, int known, double* b) {
  for (int k = 0; k < known; ++k) {
    __syncthreads();
    if (threadIdx.x == 0) b[k] /= factor[static_cast<int64>(k) * n + k];
    __syncthreads();
    for (int i = k + 1 + threadIdx.x; i < known; i += blockDim.x) b[i] -= factor[static_cast<int64>(i) * n + k] * b[k];
  }
  __syncthreads();
}

// Lists the columns by one thread: first those whose rank is 0, then those whose rank is 1, then the others. Returns
// how many there are of the first two through `counts`.
__device__ inline void order_columns(const flag* observed, const flag* scored, int D, int observed_rank,
                                     int scored_rank, int rest_rank, int* order, int* counts) {
  if (threadIdx.x != 0) return;
  int next = 0;
  for (int rank = 0; rank < 3; ++rank) {
    for (int d = 0; d < D; ++d) {
      const int own = observed[d] ? observed_rank : scored[d] ? scored_rank : rest_rank;
      if (own == rank) order[next++] = d;
    }
    if (rank < 2) counts[rank] = next;
  }
}

// What the groups of every query predict for it. Results are n_groups x n x D, and 3 x n_groups x n for the sums of
// RowResult (cpu/src/groups/row_members.h). A block has 2 D D + 7 D numbers to work with.
extern "C" __global__ void student_rows(const float* kept, const float* variance, const float* values,
                                        const flag* observed, const flag* scored, const int* nearest, int n_nearest,
                                        const float* covariance, const int* members, const float* prior_rows,
                                        int n_groups, int n, int D, double mean_rows, double scale_rows,
                                        double correlation_share, float* mean, float* square_scale, double* sums,
                                        double* memory) {
  __shared__ int counts[2];
  const int64 DD = static_cast<int64>(D) * D;
  double* const products = memory + blockIdx.x * (2 * DD + 7 * D);
  double *const factor = products + DD, *const shift = factor + DD, *const sum = shift + D, *const unknown = sum + D;
  double *const center = unknown + D, *const ratio = center + D, *const residual = ratio + D;
  int* const order = reinterpret_cast<int*>(residual + D);
  for (int64 q = blockIdx.x; q < n; q += gridDim.x) {
    const int* const rows = nearest + q * n_nearest;
    const float* const own = values + q * D;
    __syncthreads();
    for (int64 at = threadIdx.x; at < DD; at += blockDim.x) products[at] = 0;
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
      shift[d] = kept[static_cast<int64>(rows[0]) * D + d];
      sum[d] = unknown[d] = 0;
    }
    order_columns(observed + q * D, scored + q * D, D, 0, 1, 2, order, counts);
    __syncthreads();
    const int n_observed = counts[0], n_known = counts[1];
    int n_added = 0;
    for (int c = 0; c < n_groups; ++c) {
      const int M = members[c];
      for (int64 at = threadIdx.x; at < DD; at += blockDim.x) {
        const int i = static_cast<int>(at / D), j = static_cast<int>(at % D);
        if (j > i) continue;
        double total = 0;
        for (int m = n_added; m < M; ++m) {
          const float* const row = kept + static_cast<int64>(rows[m]) * D;
          total += (row[i] - shift[i]) * (row[j] - shift[j]);
        }
        products[at] += total;
      }
      for (int d = threadIdx.x; d < D; d += blockDim.x)
        for (int m = n_added; m < M; ++m) {
          const int64 at = static_cast<int64>(rows[m]) * D + d;
          sum[d] += kept[at] - shift[d];
          unknown[d] += variance[at];
        }
      n_added = M;
      __syncthreads();
      const double weight = mean_rows * M / (mean_rows + M);
      for (int d = threadIdx.x; d < D; d += blockDim.x) {
        const double scatter = fmax(products[d * static_cast<int64>(D) + d] - sum[d] * sum[d] / M, 0.0) + unknown[d];
        const double table = covariance[d * static_cast<int64>(D) + d];
        ratio[d] = isinf(scale_rows) ? 1.0 : sqrt((scatter / table + scale_rows) / (M + scale_rows));
        center[d] = sum[d] / M + shift[d];
      }
      __syncthreads();
      const double freedom = static_cast<double>(prior_rows[c]) + M + 2;
      const double wider = (mean_rows + M + 1) / ((mean_rows + M) * freedom);
      for (int64 at = threadIdx.x; at < DD; at += blockDim.x) {
        const int i = static_cast<int>(at / D), j = static_cast<int>(at % D);
        if (j > i) continue;
        const int a = order[i], b = order[j], low = a < b ? a : b, high = a < b ? b : a;
        double scatter = products[high * static_cast<int64>(D) + low] - sum[a] * sum[b] / M;
        if (a == b) scatter = fmax(scatter, 0.0) + unknown[a];
        const double prior =
            (a == b ? 1.0 : correlation_share) * covariance[a * static_cast<int64>(D) + b] * ratio[a] * ratio[b];
        factor[at] = wider * (scatter + prior_rows[c] * prior + weight * center[a] * center[b]);
      }
      cholesky(factor, D);
      const double pulled = M / (mean_rows + M);
      for (int i = threadIdx.x; i < n_known; i += blockDim.x) residual[i] = own[order[i]] - pulled * center[order[i]];
      solve_lower(factor, D, n_known, residual);
      double seen = freedom, both = 0, log_diagonal = 0;
      for (int i = 0; i < n_observed; ++i) seen += residual[i] * residual[i];
      const int64 place = static_cast<int64>(c) * n + q;
      if (threadIdx.x == 0) {
        for (int i = n_observed; i < n_known; ++i) {
          both += residual[i] * residual[i];
          log_diagonal += log(factor[i * static_cast<int64>(D) + i]);
        }
        const int64 stride = static_cast<int64>(n_groups) * n;
        sums[place] = seen, sums[stride + place] = seen + both, sums[2 * stride + place] = log_diagonal;
      }
      for (int i = threadIdx.x; i < D; i += blockDim.x) {
        const int d = order[i];
        const double* const row = factor + i * static_cast<int64>(D);
        double moved = 0, square = 0;
        if (i >= n_observed) {
          for (int k = 0; k < n_observed; ++k) moved += row[k] * residual[k];
          for (int k = n_observed; k <= i; ++k) square += row[k] * row[k];
        }
        mean[place * D + d] = i < n_observed ? own[d] : static_cast<float>(pulled * center[d] + moved);
        square_scale[place * D + d] = static_cast<float>(square * seen / (freedom + n_observed));
      }
      __syncthreads();
    }
  }
}

// What every kind says of every row: n_kinds x n x D, and 4 x n_kinds x n for the sums of KindResult. A block has
// 2 D D + 4 D numbers to work with.
extern "C" __global__ void kind_rows(const double* kind_mean, const double* precision, const double* freedom,
                                     int n_kinds, const float* values, const flag* observed, const flag* scored, int n,
                                     int D, float* mean, float* square_scale, double* sums, double* memory) {
  __shared__ int counts[2];
  const int64 DD = static_cast<int64>(D) * D, stride = static_cast<int64>(n_kinds) * n;
  double* const root = memory + blockIdx.x * (2 * DD + 4 * D);
  double *const inverse = root + DD, *const deviation = inverse + DD, *const gradient = deviation + D;
  double* const expected = gradient + D;
  int* const order = reinterpret_cast<int*>(expected + D);
  for (int64 at = blockIdx.x; at < stride; at += gridDim.x) {
    const int64 k = at / n, q = at % n;
    const double *const center = kind_mean + k * D, *const own = precision + k * DD;
    const flag* const seen_columns = observed + q * D;
    __syncthreads();
    for (int d = threadIdx.x; d < D; d += blockDim.x)
      deviation[d] = seen_columns[d] ? values[q * D + d] - center[d] : 0.0;
    // The entries that are not scored come first, the scored ones next, and the observed ones last.
    order_columns(seen_columns, scored + q * D, D, 2, 1, 0, order, counts);
    __syncthreads();
    const int n_rest = counts[0], n_missing = counts[1], n_observed = D - n_missing;
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
      double sum = 0;
      for (int e = 0; e < D; ++e) sum += own[e * static_cast<int64>(D) + d] * deviation[e];
      gradient[d] = sum;
    }
    for (int64 p = threadIdx.x; p < static_cast<int64>(n_missing) * n_missing; p += blockDim.x)
      root[p] = own[order[p / n_missing] * static_cast<int64>(D) + order[p % n_missing]];
    cholesky(root, n_missing);
    for (int i = threadIdx.x; i < n_missing; i += blockDim.x) expected[i] = -gradient[order[i]];
    solve_lower(root, n_missing, n_missing, expected);
    double square = 0, log_root = 0;
    for (int d = 0; d < D; ++d) square += deviation[d] * gradient[d];
    for (int i = 0; i < n_missing; ++i) {
      square -= expected[i] * expected[i];
      log_root += log(root[i * static_cast<int64>(n_missing) + i]);
    }
    const double seen = freedom[k] + fmax(square, 0.0);
    // The columns of the inverse of the root, one thread each.
    for (int j = threadIdx.x; j < n_missing; j += blockDim.x)
      for (int i = j; i < n_missing; ++i) {
        double sum = i == j ? 1.0 : 0.0;
        for (int l = j; l < i; ++l)
          sum -= root[i * static_cast<int64>(n_missing) + l] * inverse[l * static_cast<int64>(n_missing) + j];
        inverse[i * static_cast<int64>(n_missing) + j] = sum / root[i * static_cast<int64>(n_missing) + i];
      }
    __syncthreads();
    for (int d = threadIdx.x; d < D; d += blockDim.x)
      if (seen_columns[d]) mean[at * D + d] = values[q * D + d], square_scale[at * D + d] = 0;
    for (int j = threadIdx.x; j < n_missing; j += blockDim.x) {
      double location = 0, spread = 0;
      for (int i = j; i < n_missing; ++i) {
        const double entry = inverse[i * static_cast<int64>(n_missing) + j];
        location += entry * expected[i];
        spread += entry * entry;
      }
      gradient[j] = location;
      mean[at * D + order[j]] = static_cast<float>(center[order[j]] + location);
      square_scale[at * D + order[j]] = static_cast<float>(spread * seen / (freedom[k] + n_observed));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      double both = seen, log_diagonal = 0;
      for (int j = n_rest; j < n_missing; ++j) {
        double sum = 0;
        for (int i = j; i < n_missing; ++i)
          sum +=
              root[i * static_cast<int64>(n_missing) + j] * (values[q * D + order[i]] - center[order[i]] - gradient[i]);
        both += sum * sum;
        log_diagonal -= log(root[j * static_cast<int64>(n_missing) + j]);
      }
      sums[at] = seen, sums[stride + at] = both, sums[2 * stride + at] = log_diagonal;
      sums[3 * stride + at] = log_root;
    }
  }
}
