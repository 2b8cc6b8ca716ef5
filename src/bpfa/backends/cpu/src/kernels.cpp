// The kernels for one instruction set. This file is compiled once for each, see CMakeLists.txt, with these macros:
//   BPFA_ISA    the namespace of everything here, and inside bpfa that of kernel_set, the one function visible outside
//   BPFA_BYTES  the width of a vector register
#include "collapsed_rows.h"
#include "gibbs.h"
#include "predictions.h"
#include "sums.h"
#include "variational.h"

namespace BPFA_ISA {

// Divides a piece of scratch memory into aligned arrays.
struct ScratchAllocator {
  char* at;
  template <class T>
  T* take(std::size_t n) {
    T* result = reinterpret_cast<T*>(at);
    at += (n * sizeof(T) + bpfa::kAlignment - 1) / bpfa::kAlignment * bpfa::kAlignment;
    return result;
  }
};

// Samples the rows one after another.
template <class Real, class Row>
BPFA_INLINE void gibbs_rows(const Globals<Real>& g, const Settings& settings, const bpfa::Rows<Real>& rows,
                            std::int64_t first, int n, const Chunk<Real>& chunk, int slot, const RowOutput<Real>& out,
                            ScratchAllocator allocator) {
  int* columns = allocator.take<int>(g.DP);
  const Real** phi_rows = allocator.take<const Real*>(g.DP);
  Row row(g, allocator.take<Real>(Row::scratch(g)), columns, phi_rows);
  GibbsScratch<Real> t;
  Real** const reals[] = {&t.x, &t.w, &t.normal};
  for (Real** array : reals) *array = allocator.take<Real>(g.KP);
  t.uniform = allocator.take<std::uint32_t>(g.KP);
  t.words = allocator.take<std::uint32_t>(g.KP);
  t.active = allocator.take<std::int32_t>(g.KP);
  t.square = allocator.take<Real>(g.KP);
  t.ever_on = allocator.take<std::int32_t>(g.KP);
  t.dropout_words = allocator.take<std::uint32_t>(bpfa::padded(g.D, bpfa::kFeaturePadding));
  t.visible = allocator.take<std::uint8_t>(g.DP);
  t.y = allocator.take<Real>(g.DP);
  for (int k = 0; k < g.KP; ++k) t.square[k] = 0;
  const int lists_per_row = settings.n_samples + 1;
  ListWriter<Real> writer{chunk, lists_per_row, static_cast<std::size_t>(slot) * lists_per_row * g.K};
  ListWriter<Real>* const lists = chunk.count ? &writer : nullptr;
  for (int i = 0; i < n; ++i) {
    if (settings.method == bpfa::Method::kGibbs)
      gibbs_row<Real, Row, false>(g, settings, rows, first + i, lists, slot + i, out, row, t);
    else
      gibbs_row<Real, Row, true>(g, settings, rows, first + i, lists, slot + i, out, row, t);
  }
}

// Updates as many rows at once as a register has lanes.
template <class Real, bool Missing>
BPFA_INLINE void variational_rows(const Globals<Real>& g, const Settings& settings, const bpfa::Rows<Real>& rows,
                                  std::int64_t first, int n, const Chunk<Real>& chunk, int slot,
                                  const RowOutput<Real>& out, ScratchAllocator allocator) {
  constexpr int W = lanes<Real>;
  RowGroup<Real> t;
  Real** const reals[] = {&t.theta, &t.m, &t.kappa, &t.s, &t.phi2};
  for (Real** array : reals) *array = allocator.take<Real>(static_cast<std::size_t>(g.KP) * W);
  t.overlap = allocator.take<Real>(3 * static_cast<std::size_t>(g.KP) * W);
  t.residual = allocator.take<Real>(static_cast<std::size_t>(g.D) * W);
  t.observed = allocator.take<SInt<Real>>(static_cast<std::size_t>(g.D) * W);
  for (int i = 0; i < n; i += W) {
    const int n_here = n - i < W ? n - i : W;
    if (settings.method == bpfa::Method::kMeanField)
      variational_group<Real, true, Missing>(g, settings, rows, first + i, n_here, chunk, slot + i, out, t);
    else
      variational_group<Real, false, Missing>(g, settings, rows, first + i, n_here, chunk, slot + i, out, t);
  }
}

// Bytes of scratch memory that a thread needs, whatever method it runs. The counts of arrays follow gibbs_rows (with
// MissingRow, which needs the most), variational_rows, and the functions of sums.h.
template <class Real>
std::size_t scratch_bytes(int K, int D) {
  const std::size_t KP = bpfa::padded(K, bpfa::kFeaturePadding), DP = bpfa::padded(D, bpfa::kColumnPadding);
  const std::size_t words = bpfa::padded(D, bpfa::kFeaturePadding);
  const std::size_t gibbs = (11 * KP + 2 * DP) * sizeof(Real) + 4 * KP * 4 + DP * (5 + sizeof(void*)) + 4 * words;
  const std::size_t variational = (8 * KP + 2 * DP) * BPFA_BYTES;
  // The rest is for rounding each array up to the alignment.
  const std::size_t rows = (gibbs > variational ? gibbs : variational) + 16 * bpfa::kAlignment;
  const std::size_t sums = 2 * KP * kTile * sizeof(Real);
  return rows > sums ? rows : sums;
}

// Runs the local method over rows first to first + n - 1.
template <class Real>
void rows(const Globals<Real>& g, const Settings& settings, const bpfa::Rows<Real>& rows, std::int64_t first, int n,
          const Chunk<Real>& chunk, int slot, const RowOutput<Real>& out, void* scratch) {
  [[maybe_unused]] const FlushSubnormals flush;
  // The sums read the data and the mask of observed entries from the chunk, where columns are padded.
  if (chunk.y) {
    for (int i = 0; i < n; ++i) {
      const std::size_t from = static_cast<std::size_t>(first + i) * g.D;
      const std::size_t to = static_cast<std::size_t>(slot + i) * g.DP;
      for (int d = 0; d < g.D; ++d) chunk.y[to + d] = rows.values[from + d];
      if (chunk.o)
        for (int d = 0; d < g.D; ++d) chunk.o[to + d] = rows.observed[from + d] ? Real(1) : Real(0);
    }
  }
  const ScratchAllocator allocator{static_cast<char*>(scratch)};
  const bool gibbs = settings.method == bpfa::Method::kGibbs || settings.method == bpfa::Method::kGibbsTwoStep;
  if (gibbs && (rows.observed || settings.dropout || !g.gram))
    gibbs_rows<Real, MissingRow<Real>>(g, settings, rows, first, n, chunk, slot, out, allocator);
  else if (gibbs)
    gibbs_rows<Real, CompleteRow<Real>>(g, settings, rows, first, n, chunk, slot, out, allocator);
  else if (rows.observed)
    variational_rows<Real, true>(g, settings, rows, first, n, chunk, slot, out, allocator);
  else
    variational_rows<Real, false>(g, settings, rows, first, n, chunk, slot, out, allocator);
}

// Computes the constants of the features for rows without missing entries.
template <class Real>
void prepare(const Globals<Real>& g) {
  for (int b = 0; b < g.KP; b += lanes<Real>) {
    Vec<Real> s{}, phi2{};
    for (int d = 0; d < g.D; ++d) {
      s += load(g.s_t + static_cast<std::size_t>(d) * g.KP + b);
      phi2 += load(g.phi2_t + static_cast<std::size_t>(d) * g.KP + b);
    }
    store(g.complete.s + b, s);
    store(g.complete.phi2 + b, phi2);
    derive_constants(g, g.complete, b, s);
  }
}

// Computes kGramRows rows of the Gram matrix, starting at row k. They are computed together so that each load from
// phi_t serves all of them.
template <class Real>
void gram_rows(const Globals<Real>& g, int k, Real* gram) {
  constexpr int W = lanes<Real>, kRows = bpfa::kGramRows, kWide = 4;
  const Real* phi = g.phi + static_cast<std::size_t>(k) * g.DP;
  const int n = g.K - k < kRows ? g.K - k : kRows;
  for (int b = 0; b < g.KP; b += kWide * W) {
    Vec<Real> sum[kRows][kWide] = {};
    for (int d = 0; d < g.D; ++d) {
      const Real* other = g.phi_t + static_cast<std::size_t>(d) * g.KP + b;
      for (int i = 0; i < kRows; ++i) {
        // Beyond the last feature the last one is computed again, and the result is not stored.
        const Real factor = phi[static_cast<std::size_t>(i < n ? i : n - 1) * g.DP + d];
        for (int j = 0; j < kWide; ++j) sum[i][j] += factor * load(other + j * W);
      }
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < kWide; ++j) store(gram + static_cast<std::size_t>(k + i) * g.KP + b + j * W, sum[i][j]);
  }
}

// Performs multiply-adds at the processor's full speed and returns their number, for the benchmarks.
template <class Real>
double multiply_adds() {
  // Several independent chains, so that no multiply-add has to wait for the one before it.
  constexpr int kChains = 12, kTimes = 100000;
  Vec<Real> chain[kChains];
  for (int j = 0; j < kChains; ++j) chain[j] = splat(Real(j));
  const Vec<Real> factor = splat(Real(0.999)), term = splat(Real(0.5));
  for (int i = 0; i < kTimes; ++i)
    for (int j = 0; j < kChains; ++j) chain[j] = chain[j] * factor + term;
  // Makes the compiler believe that the results are used.
  __asm__ volatile("" : "+m"(chain) : : "memory");
  return double(kTimes) * kChains * lanes<Real>;
}

template <class Real>
bpfa::Kernels<Real> kernels() {
  return {scratch_bytes<Real>,  prepare<Real>,         gram_rows<Real>,    rows<Real>,
          sparse_columns<Real>, sparse_features<Real>, sparse_joint<Real>, dense_features<Real>,
          dense_joint<Real>,    add_predictions<Real>, multiply_adds<Real>};
}

}  // namespace BPFA_ISA

// The name of the instruction set as a string. The detour expands BPFA_ISA before it is quoted.
#define BPFA_TEXT(x) #x
#define BPFA_NAME(x) BPFA_TEXT(x)

namespace bpfa {
namespace BPFA_ISA {
KernelSet kernel_set() {
  return {BPFA_NAME(BPFA_ISA), ::BPFA_ISA::kernels<float>(), ::BPFA_ISA::kernels<double>(), ::BPFA_ISA::collapsed_rows,
          ::BPFA_ISA::CollapsedPattern::scratch_bytes};
}
}  // namespace BPFA_ISA
}  // namespace bpfa
