// Runs the kernels over all rows: the instruction set, the threads, the chunks and the memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "problem.h"

namespace bpfa {

// The instruction sets that this build has and this processor can run, widest first.
std::vector<std::string> instruction_sets();

// A view of the globals, row-major and unpadded.
struct View {
  int K, D;
  const double* phi;    // K x D
  const double* v;      // K x D
  const double* logit;  // K
  double g_o, g_w;
};

// Returns false when `go_on`, which the calling thread asks now and then, has said no; sums are then unfinished.
template <class Real>
bool run(const View& view, const Settings& settings, const Rows<Real>& rows, const RowOutput<Real>& output,
         const Sums* sums, int n_threads, const std::string& instruction_set, const std::function<bool()>& go_on);

// Yardsticks for the benchmarks: multiply-adds a second, and bytes copied a second (read and written).
double fma_rate(double seconds, int n_threads, const std::string& instruction_set);
double copy_rate(double seconds, int n_threads);

}  // namespace bpfa
