// How many threads a parallel loop may use; see threads.h.
#include "threads.h"

#include <algorithm>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace bpfa {

namespace {

// Whether this process is a child made by fork(), in which there are no other threads: see threads.h.
bool forked = false;

}  // namespace

int thread_count(int asked) {
#if defined(__unix__) || defined(__APPLE__)
  // The handler is installed once, by the first call; it runs in every later child of this process.
  static const int fork_handler_status = pthread_atfork(nullptr, nullptr, [] { forked = true; });
  (void)fork_handler_status;
#endif
  if (forked) return 1;
#ifdef _OPENMP
  const int usual = omp_get_max_threads(), processors = omp_get_num_procs();
#else
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency())), usual = processors;
#endif
  // More threads than this only get in each other's way.
  return std::min(asked > 0 ? asked : usual, 4 * processors);
}

}  // namespace bpfa
