#include "threads.h"

#include <algorithm>

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace bpfa {

namespace {

bool forked = false;

}  // namespace

int thread_count(int asked) {
#ifdef _OPENMP
#if defined(__unix__) || defined(__APPLE__)
  static const int watched = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  (void)watched;
#endif
  if (forked) return 1;
  // OpenMP ends the process when it cannot start a thread, so nothing unreasonable is asked of it.
  return std::min(asked > 0 ? asked : omp_get_max_threads(), 4 * omp_get_num_procs());
#else
  (void)asked;
  return 1;
#endif
}

}  // namespace bpfa
