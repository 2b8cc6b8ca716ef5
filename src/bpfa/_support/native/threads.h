// How many threads a parallel loop may use.
#pragma once

namespace bpfa {

// What was asked for, else what OpenMP would use; one in a forked child, where the threads of the parent are gone.
int thread_count(int asked);

}  // namespace bpfa
