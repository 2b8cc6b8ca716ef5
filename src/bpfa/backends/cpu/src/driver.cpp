// Runs the kernels over all rows: chooses the instruction set, divides the work between threads, and allocates memory;
// see driver.h.
#include "driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "pool.h"
#include "prepared.h"
#include "threads.h"

namespace bpfa {

#if defined(BPFA_X86_KERNELS)
namespace avx512 {
KernelSet kernel_set();
}
namespace avx2 {
KernelSet kernel_set();
}
#endif
namespace baseline {
KernelSet kernel_set();
}

namespace {

// The numbers to copy that pay for waking a thread: copying them takes some ten microseconds.
constexpr std::int64_t kCopiedNumbers = 1 << 15;

// The kernels that this build contains and this processor can run, widest registers first.
std::vector<KernelSet> usable_kernel_sets() {
  std::vector<KernelSet> sets;
#if defined(BPFA_X86_KERNELS)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
    sets.push_back(avx512::kernel_set());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(avx2::kernel_set());
#endif
  sets.push_back(baseline::kernel_set());
  return sets;
}

// The number of observed entries in n rows, starting at row `first`.
template <class Real>
std::int64_t observed_entries(const Rows<Real>& rows, int D, std::int64_t first, std::int64_t n) {
  std::int64_t sum = 0;
  for (std::int64_t i = first * D; i < (first + n) * D; ++i) sum += rows.observed[i] != 0;
  return sum;
}

// Whether there is a row for which the Gram matrix is expected to save time, given the share of its observed entries
// that are visible to its chain.
template <class Real>
bool any_row_uses_gram(const Rows<Real>& rows, int K, int D, double visible_share) {
  if (rows.observed == nullptr) return gram_pays(K, D, static_cast<int>(visible_share * D));
  for (std::int64_t i = 0; i < rows.n; ++i)
    if (gram_pays(K, D, static_cast<int>(visible_share * observed_entries(rows, D, i, 1)))) return true;
  return false;
}

}  // namespace

const KernelSet& kernel_set(const std::string& name) {
  static const std::vector<KernelSet> sets = usable_kernel_sets();
  if (name.empty()) return sets.front();
  for (const KernelSet& set : sets)
    if (name == set.name) return set;
  throw std::invalid_argument("instruction_set='" + name + "': not usable on this machine");
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const KernelSet& set : usable_kernel_sets()) names.emplace_back(set.name);
  return names;
}

template <class Real>
bool run(const View& view, const Settings& settings, const Rows<Real>& rows, const RowOutput<Real>& output,
         const Sums* sums, int n_threads, const std::string& instruction_set, const std::function<bool()>& keep_going) {
  if (rows.n == 0) return true;
  const Kernels<Real>& kernels = kernels_of<Real>(kernel_set(instruction_set));
  // Entries are visible to a chain if they are observed and not dropped; `dropout` is the share of dropped entries
  // times 2^32.
  const bool complete = rows.observed == nullptr, all_visible = complete && settings.dropout == 0;
  const bool gibbs = settings.method == Method::kGibbs || settings.method == Method::kGibbsTwoStep;
  // Waking a thread takes some microseconds, so it must have at least a few groups of rows to work on.
  const std::int64_t useful_threads = std::max<std::int64_t>(1, rows.n / (2 * kGroupRows));
  n_threads = static_cast<int>(std::min<std::int64_t>(thread_count(n_threads), useful_threads));
  const double visible_share = 1 - settings.dropout * 0x1p-32;
  const bool uses_gram = gibbs && !all_visible && any_row_uses_gram(rows, view.K, view.D, visible_share);
  const PreparedGlobals<Real> prepared(view, all_visible, uses_gram, gibbs, kernels, n_threads);
  const Globals<Real>& g = prepared.globals;

  // The number of rows in a chunk: enough to keep the threads busy, and for Gibbs few enough that what the sums need of
  // them stays in a cache. The result must not depend on the number of threads. The Gibbs sums are added up in blocks
  // that begin at the start of a chunk, so there the size of a chunk must not depend on the number of threads. The
  // dense sums of the variational methods are added up in blocks of 32 rows, so there every chunk but the last must be
  // a multiple of 32 rows.
  const std::int64_t per_row = static_cast<std::int64_t>(settings.n_samples + 1) * g.KP + 3 * g.DP;
  const std::int64_t rows_in_cache = std::clamp<std::int64_t>((std::int64_t{1} << 21) / per_row, 1, 2048);
  const std::int64_t whole_groups =
      rows_in_cache > kGroupRows ? rows_in_cache / kGroupRows * kGroupRows : rows_in_cache;
  const std::int64_t most_rows = gibbs ? whole_groups : std::int64_t{24} * kGroupRows * n_threads;
  const int chunk_rows = static_cast<int>(std::min(rows.n, most_rows));
  const std::size_t n_slots = chunk_rows;
  const bool sparse = sums && gibbs, dense = sums && !gibbs;
  const std::size_t n_lists = sparse ? n_slots * (settings.n_samples + 1) : 0;
  Buffer<Real> y(sums ? n_slots * g.DP : 0), o(sums && !complete ? n_slots * g.DP : 0);
  Buffer<std::size_t> start(n_lists);
  Buffer<std::int32_t> count(n_lists);
  // There is room for every feature, but only what the lists contain is written, and read.
  Buffer<std::int32_t> feature(n_lists * g.K, Content::kAnything);
  Buffer<Real> value(n_lists * g.K, Content::kAnything);
  Buffer<Real> theta(dense ? n_slots * g.KP : 0), x(dense ? n_slots * g.KP : 0), zw2(dense ? n_slots * g.KP : 0);
  Buffer<Real> residual(dense ? n_slots * g.DP : 0);
  Buffer<double> w2(dense ? n_slots : 0);
  const Chunk<Real> chunk{y.get(),     o.get(), start.get(), count.get(),    feature.get(), value.get(),
                          theta.get(), x.get(), zw2.get(),   residual.get(), w2.get()};
  // Each thread's scratch memory is a whole number of pages, which keeps what different threads write apart.
  const std::size_t scratch_bytes = (kernels.scratch_bytes(g.K, g.D) + 4095) / 4096 * 4096;
  Buffer<char> scratch(scratch_bytes * n_threads);

  const int column_tiles = g.DP / kColumnPadding, feature_tiles = padded(g.K, kColumnPadding) / kColumnPadding;
  const int sum_tasks = gibbs ? column_tiles + 1 : feature_tiles;
  // For every column, x x^T is summed over the rows in which the column is observed. If most entries are observed it is
  // quicker to sum over all rows once, and to subtract in every column the rows in which it is missing.
  const bool joint = sums && sums->xx;
  const bool subtract_missing = joint && !complete && 2 * observed_entries(rows, g.D, 0, rows.n) > rows.n * g.D;
  Buffer<double> xx_of_all_rows(subtract_missing ? static_cast<std::size_t>(g.K) * g.K : 0);
  const int all_rows_tasks = joint && (complete || subtract_missing) ? feature_tiles : 0;
  const int joint_tasks = all_rows_tasks + (joint && !complete ? g.D : 0);
  const auto joint_task = [&](int task) -> JointTask {
    using Over = JointTask::Over;
    if (task < all_rows_tasks) {
      const int first = task * kColumnPadding, last = std::min(first + kColumnPadding, g.K);
      return {Over::kAll, 0, first, last, complete ? sums->xx : xx_of_all_rows.get()};
    }
    const int column = task - all_rows_tasks;
    double* const xx = sums->xx + static_cast<std::size_t>(column) * g.K * g.K;
    return {subtract_missing ? Over::kMissing : Over::kObserved, column, 0, g.K, xx};
  };

  // Several threads take few rows at a time, so that none of them waits long for the last rows of another. The
  // variational methods need whole groups, because they update as many rows at once as a register has lanes.
  const int group_rows = gibbs && n_threads > 1 ? kSharedGroupRows : kGroupRows;

  // From time to time the calling thread, which is worker 0, asks `keep_going` whether to continue. Parallel loops
  // cannot be left early, so after a refusal their remaining tasks do nothing.
  std::atomic<bool> stop{false};
  auto last_poll = std::chrono::steady_clock::now();
  const auto poll = [&](int worker) {
    if (worker != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_poll < std::chrono::milliseconds(100)) return;
    last_poll = now;
    if (!keep_going()) stop = true;
  };

  for (std::int64_t first = 0; first < rows.n && !stop; first += chunk_rows) {
    const int n = static_cast<int>(std::min<std::int64_t>(chunk_rows, rows.n - first));
    parallel_for(n_threads, (n + group_rows - 1) / group_rows, [&](std::int64_t group, int worker) {
      if (stop) return;
      const int slot = static_cast<int>(group) * group_rows;
      void* own_scratch = scratch.get() + scratch_bytes * worker;
      kernels.rows(g, settings, rows, first + slot, std::min(group_rows, n - slot), chunk, slot, output, own_scratch);
      poll(worker);
    });
    if (!sums) continue;
    parallel_for(n_threads, joint_tasks + sum_tasks, [&](std::int64_t number, int worker) {
      if (stop) return;
      // The sums over tiles are the longest tasks and come first, so that the threads finish at about the same time.
      const int task = static_cast<int>((number + joint_tasks) % (joint_tasks + sum_tasks));
      void* own_scratch = scratch.get() + scratch_bytes * worker;
      if (task < joint_tasks) {
        if (gibbs)
          kernels.sparse_joint(g, settings.n_samples, chunk, n, joint_task(task), own_scratch);
        else
          kernels.dense_joint(g, chunk, n, joint_task(task));
      } else if (!gibbs) {
        kernels.dense_features(g, chunk, n, task - joint_tasks, *sums);
      } else if (task - joint_tasks < column_tiles) {
        kernels.sparse_columns(g, settings.n_samples, chunk, n, task - joint_tasks, *sums, own_scratch);
      } else {
        kernels.sparse_features(g, settings.n_samples, chunk, n, *sums);
      }
      poll(worker);
    });
  }
  if (stop) return false;
  if (joint_tasks > 0) {
    // The kernels fill the upper triangles only; copy them to the lower ones.
    const int n_matrices = complete ? 1 : g.D;
    const bool pays = static_cast<std::int64_t>(n_matrices) * g.K * g.K > kCopiedNumbers;
    parallel_for(pays ? n_threads : 1, n_matrices, [&](std::int64_t i, int) {
      double* matrix = sums->xx + static_cast<std::size_t>(i) * g.K * g.K;
      if (subtract_missing)
        for (int j = 0; j < g.K; ++j)
          for (int k = j; k < g.K; ++k) matrix[j * g.K + k] += xx_of_all_rows.get()[j * g.K + k];
      // The transposed copy is made in blocks that fit into the cache. Otherwise every number written would fetch a
      // cache line of its own.
      constexpr int kBlock = 32;
      for (int j0 = 0; j0 < g.K; j0 += kBlock)
        for (int k0 = j0; k0 < g.K; k0 += kBlock)
          for (int j = j0; j < std::min(j0 + kBlock, g.K); ++j)
            for (int k = std::max(k0, j + 1); k < std::min(k0 + kBlock, g.K); ++k)
              matrix[static_cast<std::size_t>(k) * g.K + j] = matrix[static_cast<std::size_t>(j) * g.K + k];
    });
  }
  return true;
}

template bool run<float>(const View&, const Settings&, const Rows<float>&, const RowOutput<float>&, const Sums*, int,
                         const std::string&, const std::function<bool()>&);
template bool run<double>(const View&, const Settings&, const Rows<double>&, const RowOutput<double>&, const Sums*, int,
                          const std::string&, const std::function<bool()>&);

// The amount of work done per second by all threads together. Each thread calls `work`, which returns the amount that
// it did, until the time is up.
template <class Work>
double measured_rate(double seconds, int n_threads, Work work) {
  // As many tasks as threads, each of which lasts until the time is up, so that every thread takes one.
  std::vector<double> rates(n_threads);
  parallel_for(n_threads, n_threads, [&](std::int64_t task, int) {
    const auto begin = std::chrono::steady_clock::now();
    double done = 0, elapsed = 0;
    do {
      done += work(static_cast<int>(task));
      elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    } while (elapsed < seconds);
    rates[task] = done / elapsed;
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

double fma_rate(double seconds, int n_threads, const std::string& instruction_set) {
  const Kernels<float>& kernels = kernel_set(instruction_set).single_precision;
  return measured_rate(seconds, thread_count(n_threads), [&](int) { return kernels.multiply_adds(); });
}

double copy_rate(double seconds, int n_threads) {
  // Each thread copies blocks that are much larger than any cache.
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  n_threads = thread_count(n_threads);
  Buffer<char> from(kBytes * n_threads), to(kBytes * n_threads);
  std::memset(from.get(), 1, kBytes * n_threads);
  std::memset(to.get(), 1, kBytes * n_threads);
  return measured_rate(seconds, n_threads, [&](int thread) {
    std::memcpy(to.get() + kBytes * thread, from.get() + kBytes * thread, kBytes);
    return 2.0 * kBytes;
  });
}

}  // namespace bpfa
