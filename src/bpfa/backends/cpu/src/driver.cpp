#include "driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "prepared.h"
#include "threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

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

const KernelSet& kernel_set(const std::string& name) {
  static const std::vector<KernelSet> sets = usable_kernel_sets();
  if (name.empty()) return sets.front();
  for (const KernelSet& set : sets)
    if (name == set.name) return set;
  throw std::invalid_argument("instruction_set='" + name + "': not usable on this machine");
}

template <class Real>
const Kernels<Real>& kernels_for(const KernelSet& set);
template <>
const Kernels<float>& kernels_for<float>(const KernelSet& set) {
  return set.single;
}
template <>
const Kernels<double>& kernels_for<double>(const KernelSet& set) {
  return set.twice;
}

// How many entries are observed, from one row on.
template <class Real>
std::int64_t observed_entries(const Rows<Real>& rows, int D, std::int64_t first, std::int64_t n) {
  std::int64_t sum = 0;
  for (std::int64_t i = first * D; i < (first + n) * D; ++i) sum += rows.observed[i] != 0;
  return sum;
}

template <class Real>
bool any_row_by_gram(const Rows<Real>& rows, int K, int D, double seen) {
  if (rows.observed == nullptr) return gram_pays(K, D, static_cast<int>(seen * D));
  for (std::int64_t i = 0; i < rows.n; ++i)
    if (gram_pays(K, D, static_cast<int>(seen * observed_entries(rows, D, i, 1)))) return true;
  return false;
}

int thread_index() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const KernelSet& set : usable_kernel_sets()) names.emplace_back(set.name);
  return names;
}

template <class Real>
bool run(const View& view, const Settings& settings, const Rows<Real>& rows, const RowOutput<Real>& output,
         const Sums* sums, int n_threads, const std::string& instruction_set, const std::function<bool()>& go_on) {
  if (rows.n == 0) return true;
  const Kernels<Real>& kernels = kernels_for<Real>(kernel_set(instruction_set));
  const bool complete = rows.observed == nullptr, all_seen = complete && settings.dropout == 0;
  const bool gibbs = settings.method == Method::kGibbs || settings.method == Method::kGibbsTwoStep;
  // A thread costs some microseconds to wake: it must have a few groups of rows to do.
  const std::int64_t worth = std::max<std::int64_t>(1, rows.n / (2 * kGroupRows));
  n_threads = static_cast<int>(std::min<std::int64_t>(thread_count(n_threads), worth));
  const double seen_share = 1 - settings.dropout * 0x1p-32;
  const bool by_gram = gibbs && !all_seen && any_row_by_gram(rows, view.K, view.D, seen_share);
  const PreparedGlobals<Real> prepared(view, all_seen, by_gram, gibbs, kernels, n_threads);
  const Globals<Real>& g = prepared.globals;

  // Rows of a chunk: enough to keep threads busy, few enough for what the sums need of them to stay in a cache.
  // The lists of Gibbs are added up in blocks that begin with the chunk, so that its size must not depend on the
  // threads; the dense sums of the others are taken over 32 rows at a time, and chunks are a multiple of that.
  const std::int64_t per_row = static_cast<std::int64_t>(settings.n_samples + 1) * g.KP + 3 * g.DP;
  const std::int64_t fitting = std::clamp<std::int64_t>((std::int64_t{1} << 21) / per_row, 1, 2048);
  const std::int64_t whole_groups = fitting > kGroupRows ? fitting / kGroupRows * kGroupRows : fitting;
  const std::int64_t largest = gibbs ? whole_groups : std::int64_t{24} * kGroupRows * n_threads;
  const int chunk_rows = static_cast<int>(std::min(rows.n, largest));
  const std::size_t n_slots = chunk_rows;
  const bool sparse = sums && gibbs, dense = sums && !gibbs;
  const std::size_t n_lists = sparse ? n_slots * (settings.n_samples + 1) : 0;
  Buffer<Real> y(sums ? n_slots * g.DP : 0), o(sums && !complete ? n_slots * g.DP : 0);
  Buffer<std::size_t> start(n_lists);
  Buffer<std::int32_t> count(n_lists), feature(n_lists * g.K);
  Buffer<Real> value(n_lists * g.K);
  Buffer<Real> theta(dense ? n_slots * g.KP : 0), x(dense ? n_slots * g.KP : 0), zw2(dense ? n_slots * g.KP : 0);
  Buffer<Real> residual(dense ? n_slots * g.DP : 0);
  Buffer<double> w2(dense ? n_slots : 0);
  const Chunk<Real> chunk{y.get(),     o.get(), start.get(), count.get(),    feature.get(), value.get(),
                          theta.get(), x.get(), zw2.get(),   residual.get(), w2.get()};
  // A page apart, so that threads do not share one.
  const std::size_t scratch_bytes = (kernels.scratch_bytes(g.K, g.D) + 4095) / 4096 * 4096;
  Buffer<char> scratch(scratch_bytes * n_threads);

  const int column_tiles = g.DP / kColumnPadding, feature_tiles = padded(g.K, kColumnPadding) / kColumnPadding;
  const int sum_tasks = gibbs ? column_tiles + 1 : feature_tiles;
  // Sums of x x^T over the rows that are observed in a column; where most are, over all rows less those that are not.
  const bool joint = sums && sums->xx;
  const bool by_missing = joint && !complete && 2 * observed_entries(rows, g.D, 0, rows.n) > rows.n * g.D;
  Buffer<double> all(by_missing ? static_cast<std::size_t>(g.K) * g.K : 0);
  const int all_tasks = joint && (complete || by_missing) ? feature_tiles : 0;
  const int joint_tasks = all_tasks + (joint && !complete ? g.D : 0);
  const auto joint_task = [&](int task) -> JointTask {
    using Over = JointTask::Over;
    if (task < all_tasks) {
      const int first = task * kColumnPadding, last = std::min(first + kColumnPadding, g.K);
      return {Over::kAll, 0, first, last, complete ? sums->xx : all.get()};
    }
    const int column = task - all_tasks;
    double* const xx = sums->xx + static_cast<std::size_t>(column) * g.K * g.K;
    return {by_missing ? Over::kMissing : Over::kObserved, column, 0, g.K, xx};
  };

  // The calling thread asks now and then whether to go on; when not, what is left of the loops does nothing.
  std::atomic<bool> stop{false};
  auto asked = std::chrono::steady_clock::now();
  const auto ask = [&] {
    if (thread_index() != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - asked < std::chrono::milliseconds(100)) return;
    asked = now;
    if (!go_on()) stop = true;
  };

  for (std::int64_t first = 0; first < rows.n && !stop; first += chunk_rows) {
    const int n = static_cast<int>(std::min<std::int64_t>(chunk_rows, rows.n - first));
#pragma omp parallel num_threads(n_threads)
    {
      void* mine = scratch.get() + scratch_bytes * thread_index();
#pragma omp for schedule(dynamic, 1)
      for (int slot = 0; slot < n; slot += kGroupRows) {
        if (stop) continue;
        kernels.rows(g, settings, rows, first + slot, std::min(kGroupRows, n - slot), chunk, slot, output, mine);
        ask();
      }
      if (sums) {
#pragma omp for schedule(dynamic, 1)
        for (int task = 0; task < joint_tasks + sum_tasks; ++task) {
          if (stop) continue;
          if (task < joint_tasks) {
            if (gibbs)
              kernels.sparse_joint(g, settings.n_samples, chunk, n, joint_task(task), mine);
            else
              kernels.dense_joint(g, chunk, n, joint_task(task));
          } else if (!gibbs) {
            kernels.dense_features(g, chunk, n, task - joint_tasks, *sums);
          } else if (task - joint_tasks < column_tiles) {
            kernels.sparse_columns(g, settings.n_samples, chunk, n, task - joint_tasks, *sums, mine);
          } else {
            kernels.sparse_features(g, settings.n_samples, chunk, n, *sums);
          }
          ask();
        }
      }
    }
  }
  if (stop) return false;
  if (joint_tasks > 0) {
    // The triangles become whole matrices.
    const int n_matrices = complete ? 1 : g.D;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int i = 0; i < n_matrices; ++i) {
      double* matrix = sums->xx + static_cast<std::size_t>(i) * g.K * g.K;
      if (by_missing)
        for (int j = 0; j < g.K; ++j)
          for (int k = j; k < g.K; ++k) matrix[j * g.K + k] += all.get()[j * g.K + k];
      // By blocks that a cache holds, or every number written would fetch a line of its own.
      constexpr int kBlock = 32;
      for (int j0 = 0; j0 < g.K; j0 += kBlock)
        for (int k0 = j0; k0 < g.K; k0 += kBlock)
          for (int j = j0; j < std::min(j0 + kBlock, g.K); ++j)
            for (int k = std::max(k0, j + 1); k < std::min(k0 + kBlock, g.K); ++k)
              matrix[static_cast<std::size_t>(k) * g.K + j] = matrix[static_cast<std::size_t>(j) * g.K + k];
    }
  }
  return true;
}

template bool run<float>(const View&, const Settings&, const Rows<float>&, const RowOutput<float>&, const Sums*, int,
                         const std::string&, const std::function<bool()>&);
template bool run<double>(const View&, const Settings&, const Rows<double>&, const RowOutput<double>&, const Sums*, int,
                          const std::string&, const std::function<bool()>&);

// Work a second of all threads together, each doing `work` until the time is up.
template <class Work>
double rate(double seconds, int n_threads, Work work) {
  double total = 0;
#pragma omp parallel num_threads(n_threads) reduction(+ : total)
  {
    const auto begin = std::chrono::steady_clock::now();
    double done = 0, elapsed = 0;
    do {
      done += work(thread_index());
      elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    } while (elapsed < seconds);
    total += done / elapsed;
  }
  return total;
}

double fma_rate(double seconds, int n_threads, const std::string& instruction_set) {
  const Kernels<float>& kernels = kernel_set(instruction_set).single;
  return rate(seconds, thread_count(n_threads), [&](int) { return kernels.multiply_adds(); });
}

double copy_rate(double seconds, int n_threads) {
  // Each thread copies blocks far larger than any cache.
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  n_threads = thread_count(n_threads);
  Buffer<char> from(kBytes * n_threads), to(kBytes * n_threads);
  std::memset(from.get(), 1, kBytes * n_threads);
  std::memset(to.get(), 1, kBytes * n_threads);
  return rate(seconds, n_threads, [&](int thread) {
    std::memcpy(to.get() + kBytes * thread, from.get() + kBytes * thread, kBytes);
    return 2.0 * kBytes;
  });
}

}  // namespace bpfa
