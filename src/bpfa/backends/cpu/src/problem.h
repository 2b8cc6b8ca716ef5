// The data that the driver passes to the kernels: plain structures that own nothing. Names follow docs/math.md
// section 4.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collapsed.h"

namespace bpfa {

// The alignment of arrays in bytes, which is the width of the widest vector register.
constexpr int kAlignment = 64;
// Features are padded to whole groups of random words, and columns to whole vector registers.
constexpr int kFeaturePadding = 64;
constexpr int kColumnPadding = 16;
// The number of rows that a thread takes at a time, and the number if several threads share the rows of Gibbs sampling.
constexpr int kGroupRows = 16;
constexpr int kSharedGroupRows = 4;
// The number of rows of the Gram matrix that are computed together.
constexpr int kGramRows = 4;
// The number of samples, counted over all rows, whose sums are accumulated in the kernels' precision before they are
// added to the sums in double precision.
constexpr int kSamplesPerFlush = 1024;
// The most features for which a Gram matrix is worth its memory.
constexpr int kGramFeatures = 4096;

// n rounded up to a multiple. This function is always inlined, and so must be every function that is shared by files
// compiled for different processors: the linker keeps only one copy of an inline function, and that must not be one
// that only the newest processors can run.
__attribute__((always_inline)) constexpr int padded(int n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Whether a row with this many observed columns takes less time with the Gram matrix and the missing columns than with
// the observed columns (see MissingRow in rows.h). The time is proportional to the number of columns that are kept:
// n_observed without the Gram matrix, and D - n_observed with it. Updating the correlations with a row of the Gram
// matrix counts as K / 32 further columns.
__attribute__((always_inline)) constexpr bool gram_pays(int K, int D, int n_observed) {
  return 2 * (D - n_observed) + K / 32 < D;
}

// Constants of each feature, for one row or, where nothing is missing, for all rows. Arrays of length KP.
template <class Real>
struct Constants {
  Real* s;      // s_k = sum_d o_d (phi_kd^2 + v_kd)
  Real* phi2;   // sum_d o_d phi_kd^2
  Real* odds;   // logit_k + (log g_w - log kappa_k) / 2
  Real* gain;   // g_o^2 / (2 kappa_k), so that the log odds are odds + gain c^2
  Real* scale;  // g_o / kappa_k, so that m = scale c
  Real* sd;     // 1 / sqrt(kappa_k)
};

// A view of the globals in the layouts that the kernels read. KP and DP are K and D with padding.
template <class Real>
struct Globals {
  int K, D, KP, DP;
  // phi, s and phi2 have an additional row of zeros, for methods that take features in pairs.
  const Real* phi;      // K x DP
  const Real* s;        // phi^2 + v, K x DP
  const Real* phi2;     // phi^2, K x DP
  const Real* phi_t;    // D x KP
  const Real* s_t;      // (phi^2 + v)^T, D x KP
  const Real* phi2_t;   // (phi^2)^T, D x KP
  const Real* logit;    // KP; beyond K so small that a feature is never on
  const Real* tiles;    // phi in tiles of kColumnPadding columns, each K x kColumnPadding
  const Real* gram;     // phi phi^T, K x KP; null unless Gibbs sampling uses it
  const Real* overlap;  // K x 3: products of phi_k with the other feature of its pair and with the next pair;
                        // for the variational methods only
  Real g_o, g_w;
  Constants<Real> complete;  // for rows without missing entries
};

// The local methods; Python passes the same numbers.
enum class Method { kGibbs, kGibbsTwoStep, kSpikeSlab, kMeanField };

// How the local method runs. `key` and `step` belong to the random numbers, as in philox.h.
struct Settings {
  Method method;
  std::uint64_t key;
  std::uint32_t step;
  int first_sweep;        // number of the first sweep; 1 for a chain that begins here
  int burn_in;            // sweeps before the first one that is kept (Gibbs)
  int n_samples;          // sweeps that are kept (Gibbs)
  int n_sweeps;           // sweeps (variational methods)
  std::uint32_t dropout;  // entries whose random word is below this are dropped from the chains (Gibbs)
};

// The rows of the data.
template <class Real>
struct Rows {
  std::int64_t n;
  const Real* values;            // n x D, zero where missing
  const std::uint8_t* observed;  // n x D; null if nothing is missing
  const std::int64_t* ids;
  const Real* start_z;  // n x K; null for the default start
  const Real* start_w;
};

// The posterior of the rows themselves, n x K each; null if it is not asked for.
template <class Real>
struct RowOutput {
  Real* z;        // Gibbs: the sum of z over the kept samples; variational: theta
  Real* x;        // Gibbs: likewise of z w; variational: m
  Real* zw2;      // Gibbs: likewise of z w^2; variational: kappa
  Real* state_z;  // Gibbs: z and w after the last sweep
  Real* state_w;
};

// What the sums need of the rows of one chunk. Each row of a chunk has a slot.
template <class Real>
struct Chunk {
  Real* y;  // rows x DP
  Real* o;  // rows x DP, ones and zeros; null if nothing is missing
  // Gibbs: each row has n_samples lists of (feature, x), one for each kept sample, and then a list of (feature, sum of
  // x^2 over the kept samples) of the features that are in any of them. List l of a slot has the index slot *
  // (n_samples + 1) + l in `start`, which says where it begins in `feature` and `value`, and in `count`, which says how
  // long it is. Each row has room for (n_samples + 1) * K entries, which the rows of a group use without gaps.
  std::size_t* start;
  std::int32_t* count;
  std::int32_t* feature;
  Real* value;
  // Variational methods: theta, E[x] and E[z w^2], rows x KP; the residual, rows x DP; and the sum of E[w^2] over the
  // features.
  Real* theta;
  Real* x;
  Real* zw2;
  Real* residual;
  double* w2;
};

// Sums over rows, in double precision; the Python side assembles LocalSums or JointSums from them.
struct Sums {
  double* n;          // sum_i E[z], K
  double* zw2;        // sum_i o_id E[z w^2], K x DP; null if nothing is missing, as every column then equals total_zw2
  double* x2;         // sum_i o_id E[x]^2, K x DP, or K if nothing is missing; unused by Gibbs, where it equals zw2
  double* xr;         // sum_i E[x_ik] r_id, K x DP; null for joint sums
  double* xy;         // sum_i E[x_ik] o_id y_id, K x DP; null for factorised sums
  double* xx;         // sum_i o_id x_ij x_ik, D x K x K, or K x K if nothing is missing; null for factorised sums
  double* total_zw2;  // sum_i E[z w^2], K
  double* w2;         // sum_ik E[w^2]; for mean field only
  double* rr;         // the sum of squared residuals, in one part for each tile of columns
};

// A part of the sums of x x^T: rows `first` to `last` - 1 of the upper triangle. The sum is over all rows of the data,
// over those in which a column is observed, or over those in which it is missing, which are subtracted.
struct JointTask {
  enum class Over { kAll, kObserved, kMissing } over;
  int column, first, last;
  double* xx;  // K x K
};

// The kernels for one instruction set and precision.
template <class Real>
struct Kernels {
  // Bytes of scratch memory that a thread needs.
  std::size_t (*scratch_bytes)(int K, int D);
  // Fills Globals::complete.
  void (*prepare)(const Globals<Real>&);
  // Computes kGramRows rows of the Gram matrix from row k on.
  void (*gram_rows)(const Globals<Real>&, int k, Real* gram);
  // Runs the local method over rows first to first + n - 1, at most kGroupRows of them, and fills the slots from `slot`
  // on.
  void (*rows)(const Globals<Real>&, const Settings&, const Rows<Real>&, std::int64_t first, int n, const Chunk<Real>&,
               int slot, const RowOutput<Real>&, void* scratch);
  // Each of the following calls adds to a part of the sums that no other call touches: a tile of columns or features,
  // or the matrices of a JointTask.
  void (*sparse_columns)(const Globals<Real>&, int n_samples, const Chunk<Real>&, int n_slots, int tile, const Sums&,
                         void* scratch);
  void (*sparse_features)(const Globals<Real>&, int n_samples, const Chunk<Real>&, int n_slots, const Sums&);
  void (*sparse_joint)(const Globals<Real>&, int n_samples, const Chunk<Real>&, int n_slots, const JointTask&,
                       void* scratch);
  void (*dense_features)(const Globals<Real>&, const Chunk<Real>&, int n_slots, int tile, const Sums&);
  void (*dense_joint)(const Globals<Real>&, const Chunk<Real>&, int n_slots, const JointTask&);
  // Includes what the kept samples of some rows predict in the mean and the squared deviations of n_before predictions.
  void (*add_predictions)(const Globals<Real>&, int n_samples, const Chunk<Real>&, int n_slots, int n_before,
                          Real* mean, Real* squares);
  // Performs some multiply-adds and returns their number, for the benchmarks.
  double (*multiply_adds)();
};

// The kernels for one instruction set.
struct KernelSet {
  const char* name;
  Kernels<float> single_precision;
  Kernels<double> double_precision;
  CollapsedKernel* collapsed_rows;
  // Bytes of scratch memory that a thread needs for it.
  std::size_t (*collapsed_scratch_bytes)(int K, int D);
};

}  // namespace bpfa
