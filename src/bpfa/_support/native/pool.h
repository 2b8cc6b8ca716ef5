// Parallel loops on threads of our own, which do not slow each other down on a busy machine.
#pragma once

#include <cstdint>
#include <functional>

namespace bpfa {

// Calls task(i, worker) once for every i from 0 to n_tasks - 1. The calling thread, whose worker number is 0, and at
// most n_threads - 1 helpers, which have the numbers from 1 on, take the tasks one after another, in order.
//
// The loop never waits for a helper that has not begun. If other programs keep the processors busy, the calling thread
// simply does more of the tasks itself. A barrier of OpenMP would wait until every thread has been given a processor,
// and a thread that waits by spinning would keep the processor that the others need.
void parallel_for(int n_threads, std::int64_t n_tasks, const std::function<void(std::int64_t, int)>& task);

}  // namespace bpfa
