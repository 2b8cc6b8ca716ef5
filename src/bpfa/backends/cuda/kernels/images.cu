// From patches back to a picture: the predictions of overlapping patches are averaged pixel by pixel, in a fixed order.
#include "common.cuh"

// Includes the prediction sum_k x_k phi_k of another draw in the mean of all draws and in the sum of squared deviations
// from it, by Welford's update. One warp processes one patch. `noise` becomes the sum of the variances of the noise.
extern "C" __global__ void __launch_bounds__(256)
    add_prediction(const int* counts, const Entry* entries, const real* phi_rows, const double* precisions,
                   int64 n_rows, int K, int D, int n_before, real* mean, real* squares, double* noise) {
  const int lane = threadIdx.x % 32;
  const int64 row = (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= n_rows) return;
  if (row == 0 && lane == 0) *noise = (n_before ? *noise : 0.0) + 1 / precisions[0];
  const int count = counts[row];
  for (int d = lane; d < D; d += 32) {
    real prediction = 0;
    for (int e = 0; e < count; ++e) {
      const Entry entry = entries[row * K + e];
      prediction += entry.weight * phi_rows[static_cast<int64>(entry.feature) * D + d];
    }
    const int64 at = row * D + d;
    const real old = n_before ? mean[at] : real(0), shift = prediction - old;
    const real updated = old + shift / (n_before + 1);
    mean[at] = updated;
    squares[at] = (n_before ? squares[at] : real(0)) + shift * (prediction - updated);
  }
}

// Adds to the pixels of one slice the patches that cover them and whose start along y is number first_y to last_y - 1.
// The pixel at y is covered by the starts numbered first_over_y[y] to last_over_y[y], and likewise along x. A patch has
// the weight 1 / (variance + noise_share * noise), where noise is the average of the draws, times `empty_weight` if
// none of its entries is observed. Without `n_observed` all of them are.
extern "C" __global__ void fold_patches(const real* mean, const real* squares, const int* n_observed, int n_draws,
                                        const double* sum_noise, double noise_share, double empty_weight, int slice,
                                        int first_y, int last_y, int n_starts_x, const int* starts_y,
                                        const int* starts_x, const int* first_over_y, const int* last_over_y,
                                        const int* first_over_x, const int* last_over_x, int height, int width,
                                        int n_channels, int patch_height, int patch_width, double* weight,
                                        double* first, double* second, unsigned char* informed) {
  const int64 n = static_cast<int64>(height) * width * n_channels;
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int channel = i % n_channels, x = i / n_channels % width, y = i / n_channels / width;
  const int D = patch_height * patch_width * n_channels;
  const double noise = noise_share * *sum_noise / n_draws;
  double sum_weight = 0, sum_first = 0, sum_second = 0;
  bool any_observed = false;
  for (int row = max(first_y, first_over_y[y]); row < min(last_y, last_over_y[y] + 1); ++row) {
    for (int column = first_over_x[x]; column <= last_over_x[x]; ++column) {
      const int64 patch = static_cast<int64>(row - first_y) * n_starts_x + column;
      const int d = ((y - starts_y[row]) * patch_width + x - starts_x[column]) * n_channels + channel;
      const bool has_observed = !n_observed || n_observed[patch] > 0;
      const double m = mean[patch * D + d], variance = squares[patch * D + d] / (n_draws - 1);
      const double patch_weight = (has_observed ? 1.0 : empty_weight) / (variance + noise);
      sum_weight += patch_weight;
      sum_first += patch_weight * m;
      sum_second += patch_weight * (variance + m * m);
      any_observed |= has_observed;
    }
  }
  const int64 at = slice * n + i;
  weight[at] += sum_weight;
  first[at] += sum_first;
  second[at] += sum_second;
  informed[at] |= any_observed;
}
