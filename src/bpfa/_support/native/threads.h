// How many threads a parallel loop may use.
#pragma once

namespace bpfa {

// The number of threads to use: the number asked for, or OpenMP's default if `asked` is not positive, up to a limit.
// OpenMP is only asked for that number, because threadpoolctl and OMP_NUM_THREADS set it; the loops run on threads of
// our own (pool.h). Always one in a child made by fork(), because the child does not inherit the threads of its parent.
int thread_count(int asked);

}  // namespace bpfa
