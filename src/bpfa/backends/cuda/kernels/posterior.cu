// The global posterior on the device: views of it and steps (docs/math.md sections 2, 3 and 5). Everything is in double
// precision, which costs nothing noticeable here; the kernels that process rows get copies in their own precision.
#include "common.cuh"
#include "tiles.cuh"

// The posterior apart from the features consists of K pairs (a_k, b_k) and of these numbers.
enum State { C, D_RATE, E, F_RATE, NOISE_STD, N_ACTIVE, FAILED, STATE_LENGTH };
// The numbers of the calls that GlobalPosterior.sampled makes to the generator of a step, in order. They are part of
// the counter of the random words, so that the host and the device draw the same numbers.
enum Call { PHI, PI_A, PI_A_BOOST, PI_B, PI_B_BOOST, NOISE, WEIGHT };

// The random words of the globals; the counter is explained at GlobalDraws in src/bpfa/_support/philox.py.
__device__ inline uint4 global_words(unsigned block, unsigned attempt, unsigned call, unsigned step, unsigned key0,
                                     unsigned key1) {
  return philox(make_uint4(block, GLOBAL << 16 | attempt, call, step), key0, key1);
}

__device__ inline double uniform_of_word(unsigned word) { return (word + 0.5) * 0x1p-32; }

// A draw from Gamma(requested, 1) by the method of Marsaglia & Tsang (2000), as in GlobalDraws of
// src/bpfa/_support/philox.py. A shape below one is raised by one, and the draw is corrected with a uniform number.
__device__ double gamma_draw(double requested, unsigned i, unsigned call, unsigned step, unsigned key0, unsigned key1) {
  const double shape = requested < 1 ? requested + 1 : requested, d = shape - 1.0 / 3.0, c = 1 / sqrt(9 * d);
  double boost = 1;
  for (unsigned attempt = 0;; ++attempt) {
    const uint4 words = global_words(i, attempt, call, step, key0, key1);
    const double normal = normal_of_word(words.x, 0.0), root = 1 + c * normal, v = root * root * root;
    if (attempt == 0 && requested < 1) boost = pow(uniform_of_word(words.z), 1 / requested);
    if (v > 0 && log(uniform_of_word(words.y)) < 0.5 * normal * normal + d - d * v + d * log(v)) return d * v * boost;
    if (attempt == 0xffff || !isfinite(shape)) return nan("");
  }
}

// The logarithm of a draw from Gamma(shape, 1). If G ~ Gamma(shape + 1) and U is uniform, then G U^(1 / shape) ~
// Gamma(shape); its logarithm is finite even if the draw itself would underflow.
__device__ double log_gamma_draw(double shape, unsigned i, unsigned call, unsigned step, unsigned key0, unsigned key1) {
  const double boosted = log(gamma_draw(shape + 1, i, call, step, key0, key1));
  const uint4 words = global_words(i / 4, 0, call + 1, step, key0, key1);
  return boosted + log(uniform_of_word(word_of(words, i % 4))) / shape;
}

// The recurrence digamma(x) = digamma(x + 1) - 1 / x leads to arguments of at least 10, for which the asymptotic series
// is accurate.
__device__ double digamma(double x) {
  double shift = 0;
  for (; x < 10; ++x) shift -= 1 / x;
  const double i = 1 / (x * x);
  return shift + log(x) - 0.5 / x -
         i * (1.0 / 12 - i * (1.0 / 120 - i * (1.0 / 252 - i * (1.0 / 240 - i * (1.0 / 132 - i * 691.0 / 32760)))));
}

// Fills in the log odds and the precisions of a view, either drawn or expected. One thread computes the log odds of one
// feature, and the thread after the last padded feature computes the precisions.
extern "C" __global__ void view_except_features(const double* ab, const double* state, int K, bool sampled,
                                                unsigned key0, unsigned key1, unsigned step, const StepOnDevice* stored,
                                                double* logit, real* logit2, double* precisions) {
  step = step_of(stored, step);
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  const int KP = (K + 63) / 64 * 64;
  if (k < K) {
    const double a = ab[k], b = ab[K + k];
    logit[k] = sampled ? log_gamma_draw(a, k, PI_A, step, key0, key1) - log_gamma_draw(b, k, PI_B, step, key0, key1)
                       : digamma(a) - digamma(b);
    logit2[k] = static_cast<real>(LOG2_E * logit[k]);
  } else if (k < KP) {
    // The padding features must never be switched on.
    logit2[k] = real(-1e30);
  } else if (k == KP) {
    const double c = state[C], e = state[E];
    precisions[0] = (sampled ? gamma_draw(c, 0, NOISE, step, key0, key1) : c) / state[D_RATE];
    precisions[1] = (sampled ? gamma_draw(e, 0, WEIGHT, step, key0, key1) : e) / state[F_RATE];
  }
}

// Stores entry (k, d) in the layout of tiles.cuh. The column of zeros is filled together with column 0.
__device__ inline void store_in_tile(real* tiles, int k, int d, int D, double value) {
  real* tile = tiles + static_cast<int64>(k / 16) * Tiles::tile_size(D);
  tile[d * TILE_STRIDE + k % 16] = static_cast<real>(value);
  if (d == 0) tile[D * TILE_STRIDE + k % 16] = 0;
}

// Copies phi and v into the layouts that the kernels of the rows read. The features beyond K are not written; they are
// zero.
extern "C" __global__ void place_view(const double* phi, const double* v, int v_columns, int K, int D, real* tiles,
                                      real* rows, real* v_tiles) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= K * D) return;
  const int k = i / D, d = i % D;
  store_in_tile(tiles, k, d, D, phi[i]);
  rows[i] = static_cast<real>(phi[i]);
  if (v) store_in_tile(v_tiles, k, d, D, v[k * v_columns + (v_columns == 1 ? 0 : d)]);
}

// Fills in phi for independent features: a draw, or the mean.
extern "C" __global__ void view_factorised(const double* tau, int tau_columns, const double* mu, int K, int D,
                                           bool sampled, unsigned key0, unsigned key1, unsigned step,
                                           const StepOnDevice* stored, double* phi, real* tiles, real* rows) {
  step = step_of(stored, step);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= K * D) return;
  const int k = i / D, d = i % D;
  const double precision = tau[k * tau_columns + (tau_columns == 1 ? 0 : d)];
  double value = mu[i] / precision;
  if (sampled) {
    const uint4 words = global_words(i / 4, 0, PHI, step, key0, key1);
    value += normal_of_word(word_of(words, i % 4), 0.0) / sqrt(precision);
  }
  phi[i] = value;
  store_in_tile(tiles, k, d, D, value);
  rows[i] = static_cast<real>(value);
}

// Computes the Cholesky factor of matrix blockIdx.x and its transpose, in shared memory. If the matrix is not positive
// definite, the factor contains numbers that are not finite, or zeros on its diagonal.
extern "C" __global__ void __launch_bounds__(256)
    cholesky(const double* P, int K, double* factors, double* transposed) {
  extern __shared__ double L[];
  const int64 matrix = static_cast<int64>(blockIdx.x) * K * K;
  // The stride is odd, so that the entries of a column are in different banks.
  const int stride = K | 1, at_row = threadIdx.x / 16, at_column = threadIdx.x % 16;
  for (int i = threadIdx.x; i < K * K; i += blockDim.x) L[i / K * stride + i % K] = P[matrix + i];
  for (int k = 0; k < K; ++k) {
    __syncthreads();
    const double diagonal = sqrt(L[k * stride + k]);
    __syncthreads();
    for (int i = k + threadIdx.x; i < K; i += blockDim.x)
      L[i * stride + k] = i == k ? diagonal : L[i * stride + k] / diagonal;
    __syncthreads();
    for (int i = k + 1 + at_row; i < K; i += 16)
      for (int j = k + 1 + at_column; j <= i; j += 16) L[i * stride + j] -= L[i * stride + k] * L[j * stride + k];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < K * K; i += blockDim.x) {
    const int row = i / K, column = i % K;
    factors[matrix + i] = column <= row ? L[row * stride + column] : 0;
    transposed[matrix + i] = column >= row ? L[column * stride + row] : 0;
  }
}

// Fills in phi at column blockIdx.x for joint features, given the Cholesky factor L of their precision and its
// transpose: solves L t = h, and then L^T phi = t + noise.
extern "C" __global__ void view_joint(const double* factors, const double* transposed, int64 factor_stride,
                                      const double* h, int K, int D, bool sampled, unsigned key0, unsigned key1,
                                      unsigned step, const StepOnDevice* stored, double* phi) {
  extern __shared__ double t[];
  step = step_of(stored, step);
  const int d = blockIdx.x;
  const double* factor = factors + d * factor_stride;
  const double* columns = transposed + d * factor_stride;
  for (int k = threadIdx.x; k < K; k += blockDim.x) t[k] = h[k * D + d];
  for (int k = 0; k < K; ++k) {
    __syncthreads();
    const double value = t[k] / columns[static_cast<int64>(k) * K + k];
    for (int j = k + 1 + threadIdx.x; j < K; j += blockDim.x) t[j] -= value * columns[static_cast<int64>(k) * K + j];
    __syncthreads();
    if (threadIdx.x == 0) t[k] = value;
  }
  __syncthreads();
  if (sampled) {
    for (int k = threadIdx.x; k < K; k += blockDim.x) {
      const unsigned i = k * D + d;
      t[k] += normal_of_word(word_of(global_words(i / 4, 0, PHI, step, key0, key1), i % 4), 0.0);
    }
  }
  for (int k = K - 1; k >= 0; --k) {
    __syncthreads();
    const double value = t[k] / factor[static_cast<int64>(k) * K + k];
    for (int j = threadIdx.x; j < k; j += blockDim.x) t[j] -= value * factor[static_cast<int64>(k) * K + j];
    __syncthreads();
    if (threadIdx.x == 0) t[k] = value;
  }
  __syncthreads();
  for (int k = threadIdx.x; k < K; k += blockDim.x) phi[k * D + d] = t[k];
}

// --- steps ---------------------------------------------------------------------------------------------------

// Whether a step must not be made: a sum is not finite, a precision is outside the range of the kernels, or an earlier
// step was refused. The last good state is kept.
__device__ inline bool refused(const double* state, const int* bad, const double* precisions) {
  const double low = sizeof(real) == 4 ? 1e-12 : 1e-100, high = sizeof(real) == 4 ? 1e12 : 1e100;
  bool out_of_range = false;
  for (int i = 0; i < 2; ++i) out_of_range |= !(precisions[i] > low && precisions[i] < high);
  return state[FAILED] != 0 || *bad || out_of_range;
}

// A natural parameter after a step of size rho towards its target.
__device__ inline double moved(double old, double target, double rho) { return (1 - rho) * old + rho * target; }

// The sum over the threads of a block, in a fixed order; every thread gets the result.
__device__ inline double block_sum(double x, double* shared) {
  __syncthreads();
  shared[threadIdx.x] = x;
  for (int width = blockDim.x / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) shared[threadIdx.x] += shared[threadIdx.x + width];
  }
  __syncthreads();
  return shared[0];
}

// A step of everything except the features; one block. `extra` is what the uncertainty of x and phi adds to the squared
// error, or null if there is none. `all_w2` is the sum of E[w^2] over all weights, or null if the weights of features
// that are off follow their prior.
extern "C" __global__ void __launch_bounds__(256)
    step_except_features(const double* ab, const double* state, const double* n, const double* total_zw2,
                         const double* scalars, const double* extra, const double* all_w2, const int* bad,
                         const double* precisions, int K, int n_samples, double batch_rows, double total_rows,
                         double a0, double b0, double c0, double d0, double e0, double f0, bool active, double rho,
                         double step, const StepOnDevice* stored, double* new_ab, double* new_state) {
  __shared__ double shared[256];
  if (stored) rho = stored->rho, step = stored->step;
  const bool refuse = refused(state, bad, precisions);
  const double scale = total_rows / batch_rows;
  double own_n = 0, own_zw2 = 0, own_active = 0;
  for (int k = threadIdx.x; k < K; k += blockDim.x) {
    const double n_k = n[k] / n_samples;
    own_n += n_k;
    own_zw2 += total_zw2[k] / n_samples;
    new_ab[k] = refuse ? ab[k] : moved(ab[k], a0 + scale * n_k, rho);
    new_ab[K + k] = refuse ? ab[K + k] : moved(ab[K + k], b0 + scale * (batch_rows - n_k), rho);
    own_active += new_ab[k] - a0 > fmax(1.0, 0.001 * total_rows);
  }
  const double sum_n = block_sum(own_n, shared), zw2 = block_sum(own_zw2, shared);
  const double n_active = block_sum(own_active, shared);
  if (threadIdx.x) return;
  const double W2 = all_w2 ? *all_w2 : zw2 + (batch_rows * K - sum_n) / precisions[1];
  const double SSE = scalars[0] / n_samples + (extra ? *extra : 0.0);
  const double targets[4] = {c0 + scale * scalars[1] / 2, d0 + scale * SSE / 2,
                             e0 + scale * (active ? sum_n : batch_rows * K) / 2, f0 + scale * (active ? zw2 : W2) / 2};
  for (int i = 0; i < 4; ++i) new_state[i] = refuse ? state[i] : moved(state[i], targets[i], rho);
  new_state[NOISE_STD] = sqrt(new_state[D_RATE] / new_state[C]);
  new_state[N_ACTIVE] = n_active;
  new_state[FAILED] = state[FAILED] != 0 ? state[FAILED] : refuse ? step : 0;
}

// Entry (k, d) of an array that has either one column for each d or, if all columns are the same, only one.
__device__ inline double in_column(const double* array, int n_columns, int k, int d) {
  return array[static_cast<int64>(k) * n_columns + (n_columns == 1 ? 0 : d)];
}

// A step of independent features: one thread for each entry of phi.
extern "C" __global__ void step_factorised(const double* tau, int tau_columns, const double* mu, const double* T,
                                           const double* X2, int T_columns, const double* xr, const double* phi,
                                           const double* state, const int* bad, const double* precisions, int K, int D,
                                           int n_samples, double scale, double rho, const StepOnDevice* stored,
                                           double* new_tau, int new_tau_columns, double* new_mu) {
  if (stored) rho = stored->rho;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= K * D) return;
  const int k = i / D, d = i % D;
  const bool refuse = refused(state, bad, precisions);
  const double s_g_o = scale * precisions[0];
  // S needs the residual without feature k, which is r + x_k phi_k.
  const double S = (xr[i] + in_column(X2, T_columns, k, d) * phi[i]) / n_samples;
  new_mu[i] = refuse ? mu[i] : moved(mu[i], s_g_o * S, rho);
  if (d < new_tau_columns) {
    const double old = in_column(tau, tau_columns, k, d);
    const double target = D + s_g_o * in_column(T, T_columns, k, d) / n_samples;
    new_tau[static_cast<int64>(k) * new_tau_columns + d] = refuse ? old : moved(old, target, rho);
  }
}

// A step of joint features: P of matrix blockIdx.y, and h.
extern "C" __global__ void step_joint(const double* P, int n_old, const double* h, const double* XX, int n_sums,
                                      const double* XY, const double* state, const int* bad, const double* precisions,
                                      int K, int D, int n_samples, double scale, double rho, const StepOnDevice* stored,
                                      double* new_P, double* new_h) {
  if (stored) rho = stored->rho;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const bool refuse = refused(state, bad, precisions);
  const double s_g_o = scale * precisions[0] / n_samples;
  const int64 matrix = blockIdx.y, size = static_cast<int64>(K) * K;
  if (i < size) {
    const double old = P[(n_old == 1 ? 0 : matrix * size) + i];
    const double target = s_g_o * XX[(n_sums == 1 ? 0 : matrix * size) + i] + (i / K == i % K ? D : 0);
    new_P[matrix * size + i] = refuse ? old : moved(old, target, rho);
  }
  if (matrix == 0 && i < K * D) new_h[i] = refuse ? h[i] : moved(h[i], s_g_o * XY[i], rho);
}
