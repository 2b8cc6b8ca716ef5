// Predictions of the patches of a picture, and their weighted average (docs/math.md section 17). The functions
// `predict_patches` and `fold_patches` do what `bpfa.images.restore` does, and read the patches where they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "driver.h"
#include "problem.h"

namespace bpfa {

// Patches of a stack of pictures. Entry d of patch i is number first[i] + offsets[d] of the arrays.
template <class Real>
struct Patches {
  std::int64_t n;
  const Real* values;            // zero where missing
  const std::uint8_t* observed;  // null if nothing is missing
  const std::int64_t* first;     // n
  const std::int64_t* offsets;   // D
  const std::int64_t* ids;       // n
};

// What draws say of the patches so far, by Welford's update, n x D each.
template <class Real>
struct Predictions {
  Real* mean;
  Real* squares;           // the sum of squared deviations from the mean
  std::uint8_t* informed;  // n: whether any entry of a patch is observed
};

// Runs the chains of all patches under one draw of the globals, and includes the predictions by all kept samples in
// `out`, which is the outcome of n_before predictions. Returns false if `keep_going` returned false, as `run` does.
template <class Real>
bool predict_patches(const View& view, const Settings& settings, const Patches<Real>& patches, int n_before,
                     const Predictions<Real>& out, int n_threads, const std::string& instruction_set,
                     const std::function<bool()>& keep_going);

// Where the patches of a strip lie in a slice: one begins at each of the n_y x n_x places, in this order.
struct Strip {
  int n_y, n_x;
  const std::int64_t* y;
  const std::int64_t* x;
  int patch_height, patch_width;
  int width, n_channels;  // of the slice
};

// The sums over patches for every entry of a slice.
struct PixelSums {
  double* weight;
  double* first;   // of the weighted means
  double* second;  // of the weighted second moments
  std::uint8_t* informed;
};

// Adds the patches of a strip, of which there were n_predictions each, to the sums of the pixels. The weight of a patch
// is one over its variance plus `noise`, times `empty_weight` if none of its entries is observed.
template <class Real>
void fold_patches(const Strip& strip, const Predictions<Real>& predictions, int n_predictions, double noise,
                  double empty_weight, const PixelSums& sums, int n_threads);

}  // namespace bpfa
