// Groups of like rows on all threads; see driver.h.
#include "driver.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "../buffer.h"
#include "pool.h"
#include "threads.h"

namespace bpfa::groups {

#if defined(BPFA_X86_KERNELS)
namespace avx512 {
GroupKernels kernels();
}
namespace avx2 {
GroupKernels kernels();
}
#endif
namespace baseline {
GroupKernels kernels();
}

namespace {

const GroupKernels& widest_kernels() {
  static const GroupKernels widest = [] {
#if defined(BPFA_X86_KERNELS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
      return avx512::kernels();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kernels();
#endif
    return baseline::kernels();
  }();
  return widest;
}

// A difference and the number of the candidate that has it, in one number that sorts by both. Differences are not
// negative, so their bits are in the order of their values.
std::uint64_t sort_key(float difference, std::size_t candidate) {
  std::uint32_t bits;
  std::memcpy(&bits, &difference, sizeof bits);
  return std::uint64_t{bits} << 32 | static_cast<std::uint32_t>(candidate);
}

// The references of one row, and the differences to all of their candidates.
class ReferenceRow {
 public:
  ReferenceRow(const Search& search) : search_(search), side_(2 * search.reach + 1) {
    n_candidates_ = static_cast<std::size_t>(2 * search.slice_reach + 1) * side_ * side_;
    differences_.resize(n_candidates_ * search.n_x);
    scratch_.resize(2 * (static_cast<std::size_t>(search.picture.width) * search.picture.channels + 64));
    keys_.reserve(n_candidates_);
  }

  void find(int slice, int y, std::int64_t* first) {
    compute(slice, y);
    for (int r = 0; r < search_.n_x; ++r) choose(slice, y, r, first + static_cast<std::int64_t>(r) * search_.n_members);
  }

 private:
  const Search& search_;
  const int side_;
  std::size_t n_candidates_;
  std::vector<float> differences_, scratch_;
  std::vector<std::uint64_t> keys_;

  const float* line(int slice, int y) const {
    const Picture& p = search_.picture;
    return search_.values + (static_cast<std::size_t>(slice) * p.height + y) * p.width * p.channels;
  }

  void compute(int slice, int y) {
    const Picture& p = search_.picture;
    std::fill(differences_.begin(), differences_.end(), std::numeric_limits<float>::infinity());
    std::size_t candidate = 0;
    for (int dz = -search_.slice_reach; dz <= search_.slice_reach; ++dz)
      for (int dy = -search_.reach; dy <= search_.reach; ++dy) {
        const bool inside =
            slice + dz >= 0 && slice + dz < search_.n_slices && y + dy >= 0 && y + dy + p.patch_height <= p.height;
        for (int dx = -search_.reach; dx <= search_.reach; ++dx, ++candidate)
          if (inside && dx > -p.width && dx < p.width)
            widest_kernels().differences(p, line(slice, y), line(slice + dz, y + dy), dx, search_.n_x, search_.x,
                                         differences_.data() + candidate, n_candidates_, scratch_.data());
      }
  }

  void choose(int slice, int y, int r, std::int64_t* first) {
    const Picture& p = search_.picture;
    const float scale = 1.0f / (p.patch_height * p.patch_width * p.channels);
    const float* const found = differences_.data() + static_cast<std::size_t>(r) * n_candidates_;
    keys_.clear();
    std::size_t candidate = 0;
    for (int dz = -search_.slice_reach; dz <= search_.slice_reach; ++dz)
      for (int dy = -search_.reach; dy <= search_.reach; ++dy)
        for (int dx = -search_.reach; dx <= search_.reach; ++dx, ++candidate) {
          if (!(found[candidate] < std::numeric_limits<float>::infinity())) continue;
          const float apart = static_cast<float>(dx * dx + dy * dy + dz * dz);
          // The reference itself, at distance 0, comes first even if another patch is equal to it.
          const bool self = apart == 0;
          keys_.push_back(sort_key(
              self ? 0.0f
                   : found[candidate] * scale + search_.distance_weight * apart + std::numeric_limits<float>::min(),
              candidate));
        }
    const std::size_t n = std::min<std::size_t>(search_.n_members, keys_.size());
    std::nth_element(keys_.begin(), keys_.begin() + (n - 1), keys_.end());
    std::sort(keys_.begin(), keys_.begin() + n);
    for (int m = 0; m < search_.n_members; ++m) {
      if (static_cast<std::size_t>(m) >= n) {
        first[m] = -1;
        continue;
      }
      const int place = static_cast<int>(keys_[m] & 0xffffffffu);
      const int dx = place % side_ - search_.reach, dy = place / side_ % side_ - search_.reach;
      const int dz = place / (side_ * side_) - search_.slice_reach;
      first[m] =
          ((static_cast<std::int64_t>(slice + dz) * p.height + y + dy) * p.width + search_.x[r] + dx) * p.channels;
    }
  }
};

int count_members(const std::int64_t* first, int n_members) {
  int n = 0;
  while (n < n_members && first[n] >= 0) ++n;
  return n;
}

// The memory that a thread needs to fit groups.
struct Worker {
  Buffer<char> scratch;
  Buffer<float> mean, variance, weight;

  explicit Worker(const Round& round)
      : scratch(widest_kernels().scratch_bytes(round.D, round.n_members)),
        mean(static_cast<std::size_t>(round.n_members) * round.DP),
        variance(static_cast<std::size_t>(round.n_members) * round.DP),
        weight(static_cast<std::size_t>(round.n_members) * round.DP) {}

  // Returns the number of members.
  int fit(const Round& round, const std::int64_t* first, double* squares, double* freedom, std::int32_t* rank) {
    const int n = count_members(first, round.n_members);
    GroupResult result{mean.get(), variance.get(), weight.get(), squares, freedom, 0};
    widest_kernels().fit(round, first, n, result, scratch.get());
    *rank = result.rank;
    return n;
  }
};

// The sums of one block over the part of the flat arrays that its members lie in.
struct BlockSums {
  std::int64_t begin = 0, end = 0;
  std::vector<float> weight, shift, square, variance;
  std::vector<double> squares, freedom;

  void open(const Round& round, const std::int64_t* first, std::int64_t n) {
    begin = std::numeric_limits<std::int64_t>::max();
    end = 0;
    for (std::int64_t i = 0; i < n; ++i)
      if (first[i] >= 0) {
        begin = std::min(begin, first[i]);
        end = std::max(end, first[i]);
      }
    end += *std::max_element(round.offsets, round.offsets + round.D) + 1;
    for (auto* sums : {&weight, &shift, &square, &variance}) sums->assign(end - begin, 0.0f);
    for (auto* sums : {&squares, &freedom}) sums->assign(round.D, 0.0);
  }

  void add(const Round& round, const std::int64_t* first, int n_members, const Worker& worker) {
    for (int n = 0; n < n_members; ++n)
      for (int d = 0; d < round.D; ++d) {
        const std::int64_t at = first[n] + round.offsets[d];
        const std::size_t i = static_cast<std::size_t>(n) * round.DP + d, here = at - begin;
        const float w = worker.weight.get()[i], difference = worker.mean.get()[i] - round.current[at];
        weight[here] += w;
        shift[here] += w * difference;
        square[here] += w * difference * difference;
        variance[here] += w * worker.variance.get()[i];
      }
  }

  void close(const Average& average, double* total_squares, double* total_freedom) {
    for (std::int64_t i = begin; i < end; ++i) {
      average.weight[i] += weight[i - begin];
      average.shift[i] += shift[i - begin];
      average.square[i] += square[i - begin];
      average.variance[i] += variance[i - begin];
    }
    for (std::size_t d = 0; d < squares.size(); ++d) {
      total_squares[d] += squares[d];
      total_freedom[d] += freedom[d];
    }
  }
};

// One for each thread that takes part; made by that thread when it begins.
template <class T>
class PerThread {
 public:
  explicit PerThread(int n_threads) : items_(n_threads) {}
  template <class... Arguments>
  T& of(int worker, const Arguments&... arguments) {
    if (!items_[worker]) items_[worker] = std::make_unique<T>(arguments...);
    return *items_[worker];
  }

 private:
  std::vector<std::unique_ptr<T>> items_;
};

}  // namespace

void find_members(const Search& search, std::int64_t* first, int n_threads) {
  n_threads = thread_count(n_threads);
  PerThread<ReferenceRow> rows(n_threads);
  parallel_for(n_threads, search.n_reference_rows, [&](std::int64_t i, int worker) {
    rows.of(worker, search).find(search.slices[i], search.y[i], first + i * search.n_x * search.n_members);
  });
}

void fit_groups(const Round& round, const std::int64_t* first, const std::int64_t* blocks, int n_blocks,
                const Average& average, std::int32_t* ranks, double* squares, double* freedom, int n_threads) {
  n_threads = thread_count(n_threads);
  PerThread<Worker> workers(n_threads);
  std::vector<BlockSums> sums(n_blocks);
  parallel_for(n_threads, n_blocks, [&](std::int64_t b, int number) {
    Worker& worker = workers.of(number, round);
    sums[b].open(round, first + blocks[b] * round.n_members, (blocks[b + 1] - blocks[b]) * round.n_members);
    for (std::int64_t g = blocks[b]; g < blocks[b + 1]; ++g) {
      const std::int64_t* const members = first + g * round.n_members;
      const int n = worker.fit(round, members, sums[b].squares.data(), sums[b].freedom.data(), ranks + g);
      sums[b].add(round, members, n, worker);
    }
  });
  for (BlockSums& block : sums) block.close(average, squares, freedom);
}

void fit_members(const Round& round, const std::int64_t* first, std::int64_t n_groups, int n_kept, float* mean,
                 float* variance, std::int32_t* ranks, double* squares, double* freedom, int n_threads) {
  n_threads = thread_count(n_threads);
  PerThread<Worker> workers(n_threads);
  const int D = round.D;
  std::vector<double> all_squares(n_groups * D), all_freedom(n_groups * D);
  parallel_for(n_threads, n_groups, [&](std::int64_t g, int number) {
    Worker& worker = workers.of(number, round);
    const int n = worker.fit(round, first + g * round.n_members, all_squares.data() + g * D, all_freedom.data() + g * D,
                             ranks + g);
    for (int m = 0; m < std::min(n, n_kept); ++m) {
      const std::size_t to = (static_cast<std::size_t>(g) * n_kept + m) * D,
                        from = static_cast<std::size_t>(m) * round.DP;
      std::copy_n(worker.mean.get() + from, D, mean + to);
      std::copy_n(worker.variance.get() + from, D, variance + to);
    }
  });
  for (std::int64_t g = 0; g < n_groups; ++g)
    for (int d = 0; d < D; ++d) {
      squares[d] += all_squares[g * D + d];
      freedom[d] += all_freedom[g * D + d];
    }
}

}  // namespace bpfa::groups
