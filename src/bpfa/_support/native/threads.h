// How many threads a parallel loop may use.
#pragma once

namespace bpfa {

// The number of threads to use: the number asked for, or OpenMP's default if `asked` is not positive, up to a limit.
// Always one in a child made by fork(), because the child does not inherit the threads of its parent and OpenMP would
// wait for them forever.
int thread_count(int asked);

}  // namespace bpfa
