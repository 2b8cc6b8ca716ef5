// What the driver hands to the kernels: plain data, no ownership. Names follow docs/math.md section 4.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bpfa {

constexpr int kAlignment = 64;
// Features are padded to whole groups of random words, columns to whole registers.
constexpr int kFeaturePadding = 64;
constexpr int kColumnPadding = 16;
// Rows that a thread takes at a time.
constexpr int kGroupRows = 16;
// Rows of the Gram matrix that are computed together.
constexpr int kGramRows = 4;
// Samples of rows whose sums are taken in single precision before they are added to the sums in double.
constexpr int kSumRows = 1024;
// A Gram matrix of more features than this is not worth its memory.
constexpr int kGramFeatures = 4096;

// Always inlined, as every function that files compiled for different processors share: the linker keeps one
// copy of an inline function, and must not keep the one that only the newest processor can run.
__attribute__((always_inline)) constexpr int padded(int n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Whether a row with so many observed columns takes less time by the Gram matrix and its missing columns than by the
// observed ones: a change of x costs half a register of features, or more, for the Gram matrix.
__attribute__((always_inline)) constexpr bool gram_pays(int K, int D, int n_observed) {
  return 2 * (D - n_observed) + K / 32 < D;
}

// Constants of each feature for one row, or for all rows when none has a missing entry.
template <class Real>
struct Constants {
  Real* s;      // s_k = sum_d o_d (phi_kd^2 + v_kd)
  Real* phi2;   // sum_d o_d phi_kd^2
  Real* odds;   // logit_k + (log g_w - log kappa_k) / 2
  Real* gain;   // g_o^2 / (2 kappa_k), so that the log odds are odds + gain c^2
  Real* scale;  // g_o / kappa_k, so that m = scale c
  Real* sd;     // 1 / sqrt(kappa_k)
};

template <class Real>
struct Globals {
  int K, D, KP, DP;
  // Row-major arrays of features have one more row, of zeros, for methods that take features in pairs.
  const Real* phi;      // K x DP
  const Real* s;        // phi^2 + v, K x DP
  const Real* phi2;     // phi^2, K x DP
  const Real* phi_t;    // D x KP
  const Real* s_t;      // (phi^2 + v)^T, D x KP
  const Real* phi2_t;   // (phi^2)^T, D x KP
  const Real* logit;    // KP, hopeless beyond K
  const Real* tiles;    // phi in tiles of kColumnPadding columns, each K x kColumnPadding
  const Real* gram;     // phi phi^T, K x KP; for Gibbs where rows use it, else null
  const Real* overlap;  // 3 x K: phi_k times the features of its pair and the next; for variational methods
  Real g_o, g_w;
  Constants<Real> complete;  // for rows without missing entries
};

enum class Method { kGibbs, kGibbsTwoStep, kSpikeSlab, kMeanField };

struct Settings {
  Method method;
  std::uint64_t key;
  std::uint32_t step;
  int first_sweep;     // number of the first sweep, 1 for a chain that begins here
  int burn_in;         // sweeps before the first one kept (Gibbs)
  int n_samples;       // sweeps kept (Gibbs)
  int n_sweeps;        // sweeps (variational)
  std::uint32_t dropout;  // chains do not see entries whose random word is below this (Gibbs)
};

template <class Real>
struct Rows {
  std::int64_t n;
  const Real* values;            // n x D, zero where missing
  const std::uint8_t* observed;  // n x D; null when complete
  const std::int64_t* ids;
  const Real* start_z;  // n x K, null for the default start
  const Real* start_w;
};

// The rows' own posterior, n x K each, null when not asked for.
template <class Real>
struct RowOutput {
  Real* z;        // Gibbs: sum over the kept samples of z        variational: theta
  Real* x;        // Gibbs: of z w                                variational: m
  Real* zw2;      // Gibbs: of z w^2                              variational: kappa
  Real* state_z;  // Gibbs: the last state
  Real* state_w;
};

// The rows of one chunk as the sums need them. Slot i of a chunk is one row.
template <class Real>
struct Chunk {
  Real* y;  // rows x DP
  Real* o;  // rows x DP, ones and zeros; null when complete
  // Gibbs: for each row n_samples lists of (feature, x), one a kept sample, then one of (feature, sum of x^2)
  // over the features that are in any of them. Groups of rows have kGroupRows x (n_samples + 1) x K places.
  std::size_t* start;
  std::int32_t* count;
  std::int32_t* feature;
  Real* value;
  // variational: rows x KP, residual rows x DP, sum of E[w^2] over the features
  Real* theta;
  Real* x;
  Real* zw2;
  Real* residual;
  double* w2;
};

// Sums over rows, in double; the Python side puts LocalSums together from them.
struct Sums {
  double* n;          // K
  double* zw2;        // sum_i o_id E[z w^2], K x DP; null when complete, where it is total_zw2 in every column
  double* x2;         // sum_i o_id E[x]^2, K x DP, or K when complete; not for Gibbs, where it equals the above
  double* xr;         // sum_i E[x_ik] r_id, K x DP; null for joint sums
  double* xy;         // sum_i E[x_ik] o_id y_id, K x DP; null for factorised sums
  double* xx;         // sum_i o_id x_ij x_ik, D x K x K, or K x K when complete; null for factorised sums
  double* total_zw2;  // sum_i E[z w^2], K
  double* w2;         // sum_ik E[w^2], mean field only
  double* rr;         // sum of squared residuals, one for each tile of columns
};

// A part of the sums of x x^T: the upper triangle of the features from `first` to `last`, over all rows, over those
// that are observed in a column, or, to be taken away, over those that are missing there.
struct JointTask {
  enum class Over { kAll, kObserved, kMissing } over;
  int column, first, last;
  double* xx;  // K x K
};

// The kernels of one instruction set.
template <class Real>
struct Kernels {
  std::size_t (*scratch_bytes)(int K, int D);
  void (*prepare)(const Globals<Real>&);
  void (*gram_rows)(const Globals<Real>&, int k, Real* gram);
  // Rows first to first + n - 1, at most kGroupRows of them, into the slots from `slot` on.
  void (*rows)(const Globals<Real>&, const Settings&, const Rows<Real>&, std::int64_t first, int n, const Chunk<Real>&,
               int slot, const RowOutput<Real>&, void* scratch);
  // Sums are taken by tiles of columns and of features that no two threads share.
  void (*sparse_columns)(const Globals<Real>&, int n_samples, const Chunk<Real>&, int n_slots, int tile, const Sums&,
                         void* scratch);
  void (*sparse_features)(const Globals<Real>&, int n_samples, const Chunk<Real>&, int n_slots, const Sums&);
  void (*sparse_joint)(const Globals<Real>&, int n_samples, const Chunk<Real>&, int n_slots, const JointTask&,
                       void* scratch);
  void (*dense_features)(const Globals<Real>&, const Chunk<Real>&, int n_slots, int tile, const Sums&);
  void (*dense_joint)(const Globals<Real>&, const Chunk<Real>&, int n_slots, const JointTask&);
  // A yardstick for benchmarks: does some multiply-adds and returns their number.
  double (*multiply_adds)();
};

struct KernelSet {
  const char* name;
  Kernels<float> single;
  Kernels<double> twice;
};

}  // namespace bpfa
