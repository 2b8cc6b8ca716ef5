// Parallel loops on threads of our own; see pool.h.
#include "pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace bpfa {

namespace {

// How long a helper looks for more work before it sleeps, and how long a caller looks whether its helpers have
// finished. Waking a thread takes longer than the first; the second is short, because a helper that was interrupted may
// be waiting for the very processor that the caller occupies.
constexpr std::chrono::microseconds kHelperPatience{50}, kCallerPatience{10};

// Tells the processor that the thread is only waiting.
void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits by spinning until `condition` holds or the time is up, and returns whether it holds.
template <class Condition>
bool spin_until(std::chrono::microseconds patience, Condition condition) {
  const auto until = std::chrono::steady_clock::now() + patience;
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  return condition();
}

// A loop that is being run. It lives on the stack of the caller.
struct Loop {
  const std::function<void(std::int64_t, int)>& task;
  const std::int64_t n_tasks;
  const int most_helpers;
  std::atomic<std::int64_t> next_task{0};
  std::atomic<int> n_running{0};  // helpers at work
  int n_joined = 0;               // helpers that have ever joined; guarded by the mutex of the pool

  bool wants_helper() const { return n_joined < most_helpers && next_task.load() < n_tasks; }

  void work(int worker) {
    for (std::int64_t i = next_task++; i < n_tasks; i = next_task++) task(i, worker);
  }
};

class Pool {
 public:
  void run(Loop& loop) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      start_helpers(loop.most_helpers);
      loops_.push_back(&loop);
      ++n_open_;
    }
    if (loop.most_helpers == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    loop.work(0);
    {
      // From here on no helper can join.
      const std::lock_guard<std::mutex> lock(mutex_);
      loops_.erase(std::find(loops_.begin(), loops_.end(), &loop));
      --n_open_;
    }
    const auto finished = [&] { return loop.n_running.load() == 0; };
    if (spin_until(kCallerPatience, finished)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, finished);
  }

 private:
  // Starts threads until there are this many helpers, or until the system has no more.
  void start_helpers(int n) {
    try {
      for (; n_helpers_ < n; ++n_helpers_) std::thread([this] { help(); }).detach();
    } catch (const std::system_error&) {
    }
  }

  // The life of a helper: it joins one loop after another, and sleeps while no loop wants help.
  void help() {
    for (;;) {
      spin_until(kHelperPatience, [&] { return n_open_.load() > 0; });
      std::unique_lock<std::mutex> lock(mutex_);
      Loop* loop = nullptr;
      wake_.wait(lock, [&] { return (loop = loop_that_wants_helper()) != nullptr; });
      const int worker = ++loop->n_joined;
      ++loop->n_running;
      lock.unlock();
      loop->work(worker);
      // The loop may be gone as soon as its last helper has signed off.
      if (--loop->n_running == 0) {
        // The caller is either before its check, which will succeed, or asleep, as it holds the mutex in between.
        lock.lock();
        lock.unlock();
        finished_.notify_all();
      }
    }
  }

  Loop* loop_that_wants_helper() const {
    const auto found =
        std::find_if(loops_.begin(), loops_.end(), [](const Loop* loop) { return loop->wants_helper(); });
    return found == loops_.end() ? nullptr : *found;
  }

  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  std::vector<Loop*> loops_;
  std::atomic<int> n_open_{0};
  int n_helpers_ = 0;
};

// Never destroyed, because its helpers live until the process ends.
Pool& pool() {
  static Pool* const only = new Pool;
  return *only;
}

}  // namespace

void parallel_for(int n_threads, std::int64_t n_tasks, const std::function<void(std::int64_t, int)>& task) {
  const int n_helpers = static_cast<int>(std::min<std::int64_t>(n_threads, n_tasks)) - 1;
  if (n_helpers <= 0) {
    for (std::int64_t i = 0; i < n_tasks; ++i) task(i, 0);
    return;
  }
  Loop loop{task, n_tasks, n_helpers};
  pool().run(loop);
}

}  // namespace bpfa
