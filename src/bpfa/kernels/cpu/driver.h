// Runs the kernels over all rows: the instruction set, the threads, the chunks and the memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "problem.h"

namespace bpfa {

// The instruction sets that this build has and this processor can run, widest first.
std::vector<std::string> instruction_sets();

// Threads to use: what was asked for, else what OpenMP would; one in a forked child, where OpenMP's threads
// of the parent are gone.
int thread_count(int asked);

// A view of the globals, row-major and unpadded.
template <class Real>
struct View {
  int K, D;
  const double* phi;    // K x D
  const double* v;      // K x D
  const double* logit;  // K
  double g_o, g_w;
};

// `between_chunks` is called from the calling thread now and then, and may throw.
template <class Real>
void run(const View<Real>& view, const Settings& settings, const Rows<Real>& rows, const RowOutput<Real>& output,
         const Sums* sums, int n_threads, const std::string& instruction_set,
         const std::function<void()>& between_chunks);

double fma_rate(double seconds, int n_threads, const std::string& instruction_set);

}  // namespace bpfa
