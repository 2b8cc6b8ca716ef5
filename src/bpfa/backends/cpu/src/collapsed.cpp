// Predictions of missing entries with the weights integrated out of the chain; see collapsed.h.
#include "collapsed.h"

#include <algorithm>
#include <vector>

#include "buffer.h"
#include "driver.h"
#include "pool.h"
#include "threads.h"

namespace bpfa {

namespace {

// The most rows of a pattern that a thread takes at a time.
constexpr std::int64_t kRows = 64;

// Copies the draws into padded arrays that the kernels read, and computes the Gram matrices.
class Preparation {
 public:
  explicit Preparation(const Draws& draws)
      : K_(draws.K),
        D_(draws.D),
        KP_(padded(draws.K, kAlignment / static_cast<int>(sizeof(double)))),
        phi_t_(static_cast<std::size_t>(draws.n) * D_ * KP_),
        gram_(static_cast<std::size_t>(draws.n) * K_ * KP_),
        logit_(static_cast<std::size_t>(draws.n) * KP_) {
    for (int v = 0; v < draws.n; ++v) {
      const double* phi = draws.phi + static_cast<std::size_t>(v) * K_ * D_;
      double* phi_t = phi_t_.get() + static_cast<std::size_t>(v) * D_ * KP_;
      for (int k = 0; k < K_; ++k)
        for (int d = 0; d < D_; ++d) phi_t[static_cast<std::size_t>(d) * KP_ + k] = *phi++;
      double* logit = logit_.get() + static_cast<std::size_t>(v) * KP_;
      std::fill(logit, logit + KP_, -1e30);
      std::copy(draws.logit + static_cast<std::size_t>(v) * K_, draws.logit + static_cast<std::size_t>(v + 1) * K_,
                logit);
    }
  }

  // Computes the Gram matrix of draw v.
  void gram(std::int64_t v) {
    const double* phi_t = phi_t_.get() + static_cast<std::size_t>(v) * D_ * KP_;
    double* gram = gram_.get() + static_cast<std::size_t>(v) * K_ * KP_;
    for (int d = 0; d < D_; ++d, phi_t += KP_)
      for (int k = 0; k < K_; ++k)
        for (int j = 0; j < KP_; ++j) gram[static_cast<std::size_t>(k) * KP_ + j] += phi_t[k] * phi_t[j];
  }

  PreparedDraws prepared(const Draws& draws) const {
    return {draws.n, K_, D_, KP_, phi_t_.get(), gram_.get(), logit_.get(), draws.g_o, draws.g_w};
  }

 private:
  int K_, D_, KP_;
  Buffer<double> phi_t_, gram_, logit_;
};

}  // namespace

void add_draws(const Draws& draws, const CollapsedRows& rows, const Patterns& patterns, const Sampling& sampling,
               int n_threads, const std::string& instruction_set) {
  const KernelSet& kernels = kernel_set(instruction_set);
  // A task is a number of rows with the same pattern; `first` and `last` are places in the order of the rows.
  struct Task {
    std::int64_t first, last;
  };
  std::vector<Task> tasks;
  for (std::int64_t j = 0; j < patterns.n; ++j)
    for (std::int64_t first = patterns.starts[j]; first < patterns.starts[j + 1]; first += kRows)
      tasks.push_back({first, std::min(first + kRows, patterns.starts[j + 1])});
  n_threads = thread_count(n_threads);
  Preparation preparation(draws);
  parallel_for(n_threads, draws.n, [&](std::int64_t v, int) { preparation.gram(v); });
  const PreparedDraws prepared = preparation.prepared(draws);
  // Each thread's scratch memory is a whole number of pages, which keeps what different threads write apart.
  const std::size_t scratch_bytes = (kernels.collapsed_scratch_bytes(draws.K, draws.D) + 4095) / 4096 * 4096;
  Buffer<char> scratch(scratch_bytes * n_threads);
  parallel_for(n_threads, static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i, int worker) {
    kernels.collapsed_rows(prepared, rows, sampling, patterns.order + tasks[i].first,
                           static_cast<int>(tasks[i].last - tasks[i].first), scratch.get() + scratch_bytes * worker);
  });
}

}  // namespace bpfa
