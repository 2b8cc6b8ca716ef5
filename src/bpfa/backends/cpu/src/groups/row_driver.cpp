// Groups of like rows of a table on all threads; see row_driver.h.
#include "row_driver.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "../buffer.h"
#include "pool.h"
#include "threads.h"

namespace bpfa::groups {

#if defined(BPFA_X86_KERNELS)
namespace avx512 {
RowKernels row_kernels();
}
namespace avx2 {
RowKernels row_kernels();
}
#endif
namespace baseline {
RowKernels row_kernels();
}

namespace {

const RowKernels& widest_kernels() {
  static const RowKernels widest = [] {
#if defined(BPFA_X86_KERNELS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
      return avx512::row_kernels();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::row_kernels();
#endif
    return baseline::row_kernels();
  }();
  return widest;
}

// Queries that are compared with a block of kept rows while the block is in the cache, and the size of the block.
constexpr int kQueries = 8, kBlockRows = 512;
// Every so many distances one is looked at to guess which rows may be among the nearest.
constexpr int kStride = 16;

// A distance and the number of the row that has it, in one number that sorts by both. Distances are not negative, so
// their bits are in the order of their values.
std::uint64_t sort_key(float distance, std::size_t row) {
  std::uint32_t bits;
  std::memcpy(&bits, &distance, sizeof bits);
  return std::uint64_t{bits} << 32 | static_cast<std::uint32_t>(row);
}

class Finder {
 public:
  Finder(const KeptRows& kept, const RowQueries& queries, const std::int32_t* sizes, int n_sizes, int n_twins,
         float tolerance)
      : kept_(kept), queries_(queries), sizes_(sizes, sizes + n_sizes), n_twins_(n_twins), tolerance_(tolerance) {
    n_members_ = sizes_.back();
    distances_.resize(static_cast<std::size_t>(kQueries) * kept.N);
    observed_.resize(static_cast<std::size_t>(kQueries) * kept.D);
    keys_.reserve(kept.N + 1);
  }

  // Finds the nearest rows of n queries, at most kQueries.
  void find(const float* columns, std::int64_t first, int n, std::int32_t* nearest) {
    const int D = kept_.D;
    int n_observed[kQueries];
    for (int q = 0; q < n; ++q) {
      n_observed[q] = 0;
      for (int d = 0; d < D; ++d)
        if (queries_.observed[(first + q) * D + d]) observed_[q * D + n_observed[q]++] = d;
    }
    for (std::int64_t from = 0; from < kept_.N; from += kBlockRows)
      for (int q = 0; q < n; ++q)
        widest_kernels().distances(columns, kept_.N, observed_.data() + q * D, n_observed[q],
                                   queries_.values + (first + q) * D, from, std::min(from + kBlockRows, kept_.N),
                                   distances_.data() + q * kept_.N);
    for (int q = 0; q < n; ++q) {
      choose(distances_.data() + q * kept_.N);
      leave_out_twin(queries_.values + (first + q) * D, observed_.data() + q * D, n_observed[q]);
      for (int m = 0; m < n_members_; ++m)
        nearest[(first + q) * n_members_ + m] = static_cast<std::int32_t>(keys_[m] & 0xffffffffu);
    }
  }

 private:
  const KeptRows& kept_;
  const RowQueries& queries_;
  const std::vector<std::int32_t> sizes_;
  const int n_twins_;
  const float tolerance_;
  int n_members_;
  std::vector<float> distances_, some_;
  std::vector<std::int32_t> observed_;
  std::vector<std::uint64_t> keys_;

  // The keys of the nearest rows, one more than there are members, divided by size.
  void choose(const float* distances) {
    const std::size_t N = kept_.N, wanted = n_members_ + 1;
    some_.clear();
    for (std::size_t n = 0; n < N; n += kStride) some_.push_back(distances[n]);
    const double share = static_cast<double>(some_.size()) / N, expected = wanted * share;
    const std::size_t rank = static_cast<std::size_t>(expected + 3 * std::sqrt(expected) + 3);
    keys_.clear();
    if (rank < some_.size()) {
      std::nth_element(some_.begin(), some_.begin() + rank, some_.end());
      const float most = some_[rank];
      keys_.resize(N + 1);
      std::size_t n_keys = 0;
      for (std::size_t n = 0; n < N; ++n) {
        keys_[n_keys] = sort_key(distances[n], n);
        n_keys += distances[n] <= most;
      }
      keys_.resize(n_keys);
    }
    if (keys_.size() < wanted) {
      keys_.clear();
      for (std::size_t n = 0; n < N; ++n) keys_.push_back(sort_key(distances[n], n));
    }
    auto end = keys_.end();
    if (wanted < keys_.size()) {
      std::nth_element(keys_.begin(), keys_.begin() + (wanted - 1), keys_.end());
      end = keys_.begin() + wanted;
    }
    keys_.resize(end - keys_.begin());
  }

  // Removes the nearest row that equals the query, or the last row, and divides the others by the sizes of the groups.
  void leave_out_twin(const float* query, const std::int32_t* observed, int n_observed) {
    auto left_out = keys_.end(), end = keys_.end();
    if (n_twins_ < end - keys_.begin()) {
      end = keys_.begin() + n_twins_;
      std::nth_element(keys_.begin(), end - 1, keys_.end());
    }
    for (auto key = keys_.begin(); key != end; ++key)
      if (is_twin(*key & 0xffffffffu, query, observed, n_observed) && (left_out == keys_.end() || *key < *left_out))
        left_out = key;
    if (left_out == keys_.end()) left_out = std::max_element(keys_.begin(), keys_.end());
    keys_.erase(left_out);
    end = keys_.end();
    for (auto size = sizes_.rbegin(); size != sizes_.rend(); ++size)
      if (*size < end - keys_.begin()) {
        std::nth_element(keys_.begin(), keys_.begin() + (*size - 1), end);
        end = keys_.begin() + *size;
      }
    // The nearest row comes first: sums are taken about it.
    std::iter_swap(keys_.begin(), std::min_element(keys_.begin(), end));
  }

  bool is_twin(std::size_t row, const float* query, const std::int32_t* observed, int n_observed) const {
    const float* const values = kept_.values + row * kept_.D;
    const float* const variance = kept_.variance + row * kept_.D;
    int n_common = 0;
    for (int i = 0; i < n_observed; ++i) {
      const int d = observed[i];
      if (variance[d] != 0) continue;
      if (std::abs(values[d] - query[d]) > tolerance_ * (1 + std::abs(query[d]))) return false;
      ++n_common;
    }
    return 2 * n_common >= std::max(1, n_observed);
  }
};

}  // namespace

void nearest_rows(const KeptRows& kept, const float* columns, const RowQueries& queries, const std::int32_t* sizes,
                  int n_sizes, int n_twins, float tolerance, std::int32_t* nearest, int n_threads) {
  n_threads = thread_count(n_threads);
  std::vector<std::unique_ptr<Finder>> finders(n_threads);
  parallel_for(n_threads, (queries.n + kQueries - 1) / kQueries, [&](std::int64_t block, int worker) {
    if (!finders[worker]) finders[worker] = std::make_unique<Finder>(kept, queries, sizes, n_sizes, n_twins, tolerance);
    const std::int64_t first = block * kQueries;
    finders[worker]->find(columns, first, static_cast<int>(std::min<std::int64_t>(kQueries, queries.n - first)),
                          nearest);
  });
}

void student_rows(const KeptRows& kept, const RowQueries& queries, const std::int32_t* nearest, int n_nearest,
                  const RowGroups& groups, float* mean, float* square_scale, double* seen, double* both,
                  double* log_diagonal, int n_threads) {
  n_threads = thread_count(n_threads);
  const RowKernels& kernels = widest_kernels();
  std::vector<Buffer<char>> scratch(n_threads);
  std::vector<std::vector<RowResult>> results(n_threads);
  parallel_for(n_threads, queries.n, [&](std::int64_t q, int worker) {
    if (results[worker].empty()) {
      scratch[worker] = Buffer<char>(kernels.scratch_bytes(groups.D));
      results[worker].resize(groups.n_groups);
    }
    const std::int64_t D = groups.D, at = q * D;
    for (int c = 0; c < groups.n_groups; ++c) {
      const std::int64_t to = (c * queries.n + q) * D;
      results[worker][c] = {mean + to, square_scale + to, 0, 0, 0};
    }
    const RowQuery query{queries.values + at, queries.observed + at, queries.scored + at, nearest + q * n_nearest};
    kernels.student(kept, groups, query, results[worker].data(), scratch[worker].get());
    for (int c = 0; c < groups.n_groups; ++c) {
      const RowResult& result = results[worker][c];
      seen[c * queries.n + q] = result.seen;
      both[c * queries.n + q] = result.both;
      log_diagonal[c * queries.n + q] = result.log_diagonal;
    }
  });
}

void kind_rows(const RowKinds& kinds, const RowQueries& queries, float* mean, float* square_scale, double* sums,
               int n_threads) {
  n_threads = thread_count(n_threads);
  const RowKernels& kernels = widest_kernels();
  const int D = kinds.D;
  const std::int64_t n = queries.n, stride = kinds.n_kinds * n;
  std::vector<std::vector<double>> memory(n_threads);
  std::vector<std::vector<std::int32_t>> missing(n_threads);
  parallel_for(n_threads, n, [&](std::int64_t q, int worker) {
    memory[worker].resize(kernels.kind_numbers(D));
    const RowQuery query{queries.values + q * D, queries.observed + q * D, queries.scored + q * D, nullptr};
    std::vector<std::int32_t>& order = missing[worker];
    order.clear();
    for (int d = 0; d < D; ++d)
      if (!query.observed[d] && !query.scored[d]) order.push_back(d);
    const int n_rest = static_cast<int>(order.size());
    for (int d = 0; d < D; ++d)
      if (!query.observed[d] && query.scored[d]) order.push_back(d);
    for (int k = 0; k < kinds.n_kinds; ++k) {
      const std::int64_t at = k * n + q;
      KindResult result{mean ? mean + at * D : nullptr, mean ? square_scale + at * D : nullptr, 0, 0, 0, 0};
      kernels.kind_row(D, kinds.kind(k), query, order.data(), static_cast<int>(order.size()), n_rest, result,
                       memory[worker].data());
      sums[at] = result.seen, sums[stride + at] = result.both, sums[2 * stride + at] = result.log_diagonal;
      sums[3 * stride + at] = result.log_root;
    }
  });
}

void kind_sums(const RowKinds& kinds, const RowQueries& rows, const double* shares, double* first, double* second,
               int n_threads) {
  n_threads = thread_count(n_threads);
  const RowKernels& kernels = widest_kernels();
  const int D = kinds.D;
  std::vector<std::int32_t> missing;
  std::vector<std::int64_t> ends(rows.n + 1);
  for (std::int64_t q = 0; q < rows.n; ++q) {
    for (int d = 0; d < D; ++d)
      if (!rows.observed[q * D + d]) missing.push_back(d);
    ends[q + 1] = static_cast<std::int64_t>(missing.size());
  }
  parallel_for(n_threads, kinds.n_kinds, [&](std::int64_t k, int) {
    std::vector<double> memory(kernels.kind_numbers(D));
    KindSum sum{first + k * D, second + k * D * D};
    std::fill_n(sum.first, D, 0.0);
    std::fill_n(sum.second, static_cast<std::size_t>(D) * D, 0.0);
    for (std::int64_t q = 0; q < rows.n; ++q)
      if (const double share = shares[k * rows.n + q])
        kernels.add_to_kind(D, kinds.kind(static_cast<int>(k)), rows.values + q * D, rows.observed + q * D,
                            missing.data() + ends[q], static_cast<int>(ends[q + 1] - ends[q]), share, sum,
                            memory.data());
  });
}

}  // namespace bpfa::groups
