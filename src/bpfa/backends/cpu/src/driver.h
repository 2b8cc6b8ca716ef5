// Runs a local method over all rows, with the kernels for this processor and as many threads as asked for.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "problem.h"

namespace bpfa {

// The instruction sets that this build contains and this processor can run, widest registers first.
std::vector<std::string> instruction_sets();

// The kernels of the named instruction set, or the widest usable ones if the name is empty.
const KernelSet& kernel_set(const std::string& name);

// Those of a precision.
template <class Real>
const Kernels<Real>& kernels_of(const KernelSet& set) {
  if constexpr (sizeof(Real) == sizeof(float))
    return set.single_precision;
  else
    return set.double_precision;
}

// A view of the globals, as row-major arrays without padding.
struct View {
  int K, D;
  const double* phi;    // K x D
  const double* v;      // K x v_columns
  int v_columns;        // D, or 1 where the variance of phi is the same in every column
  const double* logit;  // K
  double g_o, g_w;

  double variance(int k, int d) const { return v[static_cast<std::size_t>(k) * v_columns + (v_columns == 1 ? 0 : d)]; }
};

// Runs a local method over the rows, fills `output` and adds to `sums`, which may be null. The calling thread calls
// `keep_going` from time to time; if it returns false, the run is abandoned, the sums are left incomplete, and the
// result is false.
template <class Real>
bool run(const View& view, const Settings& settings, const Rows<Real>& rows, const RowOutput<Real>& output,
         const Sums* sums, int n_threads, const std::string& instruction_set, const std::function<bool()>& keep_going);

// Measured speeds of this machine, which the benchmarks compare the kernels with: multiply-adds per second, and bytes
// copied per second, counting both those read and those written.
double fma_rate(double seconds, int n_threads, const std::string& instruction_set);
double copy_rate(double seconds, int n_threads);

}  // namespace bpfa
