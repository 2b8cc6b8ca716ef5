// Frames of a stream: pixels in, standardised values for the chains; sums over patches in, pixels out. Variants,
// selected by macro: PIXEL, the type of the pixels; DEVIATION, that of the standard deviations.
#include "common.cuh"

#ifndef PIXEL
#define PIXEL float
#endif
#ifndef DEVIATION
#define DEVIATION float
#endif
typedef PIXEL pixel;
typedef DEVIATION deviation;

__device__ inline double rounded(double x, float) { return x; }
__device__ inline double rounded(double x, double) { return x; }
__device__ inline double within(double x, double low, double high) { return fmin(fmax(rint(x), low), high); }
__device__ inline double rounded(double x, unsigned char) { return within(x, 0, 255); }
__device__ inline double rounded(double x, signed char) { return within(x, -128, 127); }
__device__ inline double rounded(double x, unsigned short) { return within(x, 0, 65535); }
__device__ inline double rounded(double x, short) { return within(x, -32768, 32767); }
__device__ inline double rounded(double x, unsigned) { return within(x, 0, 4294967295.0); }
__device__ inline double rounded(double x, int) { return within(x, -2147483648.0, 2147483647.0); }

// Standardises the pixels of a frame. A pixel is missing if `missing` is not 0 or if it is not a number. `facts` has,
// for every channel, the number of observed pixels and the sums of their standardised values and of the squares of
// these, and at its end the number of observed pixels that are infinite.
extern "C" __global__ void __launch_bounds__(256)
    load_frame(const pixel* pixels, const unsigned char* missing, int64 n, int n_channels, const double* mean,
               const double* scale, float* values, unsigned char* observed, double* facts) {
  // The stride is a multiple of the number of channels, so that a thread sees pixels of one channel only.
  const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x * n_channels;
  for (int channel = 0; channel < n_channels; ++channel) {
    double count = 0, sum = 0, squares = 0, infinite = 0;
    for (int64 i = (static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x) * n_channels + channel; i < n;
         i += stride) {
      const double p = static_cast<double>(pixels[i]);
      const bool seen = !missing[i] && p == p;
      const double value = seen ? (p - mean[channel]) / scale[channel] : 0.0;
      values[i] = static_cast<float>(value);
      observed[i] = seen;
      if (!seen) continue;
      if (fabs(p) > 1.7976931348623157e308) {
        ++infinite;
        continue;
      }
      ++count;
      sum += value;
      squares += value * value;
    }
    count = lane_sum<32>(count);
    sum = lane_sum<32>(sum);
    squares = lane_sum<32>(squares);
    infinite = lane_sum<32>(infinite);
    if (threadIdx.x % 32) continue;
    atomicAdd(facts + 3 * channel, count);
    atomicAdd(facts + 3 * channel + 1, sum);
    atomicAdd(facts + 3 * channel + 2, squares);
    if (infinite > 0) atomicAdd(facts + 3 * n_channels, infinite);
  }
}

// Counts the observed entries of every patch. totals[0] is the largest number, and totals[1] the sum; `counts` may be
// null.
extern "C" __global__ void __launch_bounds__(256)
    count_patches(const unsigned char* observed, const int64* bases, const int* offsets, int64 n_rows, int D,
                  int* counts, unsigned long long* totals) {
  const int64 row = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  int count = 0;
  if (row < n_rows) {
    for (int d = 0; d < D; ++d) count += observed[bases[row] + offsets[d]] != 0;
    if (counts) counts[row] = count;
  }
  if (!totals) return;
  int most = count;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) most = max(most, __shfl_xor_sync(EVERY_LANE, most, offset));
  count = lane_sum<32>(count);
  if (threadIdx.x % 32) return;
  atomicMax(totals, static_cast<unsigned long long>(most));
  atomicAdd(totals + 1, static_cast<unsigned long long>(count));
}

// Turns the weighted sums over patches into pixels and their standard deviations in the units of the frame. With
// `keep_observed`, observed pixels stay as they are, and so do those that were only hidden from the model, where
// `hidden` is 2. Any output may be null.
extern "C" __global__ void __launch_bounds__(256)
    finish_frame(const double* weight, const double* first, const double* second, const unsigned char* informed,
                 const pixel* pixels, const unsigned char* observed, const unsigned char* hidden, int64 n,
                 int n_channels, const double* mean, const double* scale, bool keep_observed, pixel* image,
                 deviation* std, unsigned char* missing, unsigned char* from_prior) {
  const int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int channel = i % n_channels;
  const bool seen = observed[i] || hidden[i] == 2, kept = keep_observed && seen;
  const double value = first[i] / weight[i];
  if (image) image[i] = kept ? pixels[i] : static_cast<pixel>(rounded(value * scale[channel] + mean[channel], pixel()));
  if (std) {
    const double spread = sqrt(fmax(second[i] / weight[i] - value * value, 0.0));
    std[i] = kept ? deviation(0) : static_cast<deviation>(spread * scale[channel]);
  }
  if (missing) missing[i] = !seen;
  if (from_prior) from_prior[i] = !informed[i];
}

// The errors of pixels that were hidden from the model, in units of their standard deviations.
extern "C" __global__ void __launch_bounds__(256)
    score_hidden(const double* weight, const double* first, const double* second, const pixel* pixels,
                 const int64* places, int n, int n_channels, const double* mean, const double* scale, float* errors) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int64 at = places[i];
  const int channel = at % n_channels;
  const double value = first[at] / weight[at], variance = second[at] / weight[at] - value * value;
  // What the frame shows, which is rounded if pixels are integers.
  const double shown = rounded(value * scale[channel] + mean[channel], pixel());
  const double spread = sqrt(fmax(variance, 1e-30)) * scale[channel];
  errors[i] = static_cast<float>((static_cast<double>(pixels[at]) - shown) / spread);
}
