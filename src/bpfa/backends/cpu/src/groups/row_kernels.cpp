// The kernels of groups of like rows of a table for one instruction set. This file is compiled once for each; see
// ../kernels.cpp.
#include "row_group.h"
#include "row_kind.h"

namespace BPFA_ISA {

void distances(const float* columns, std::int64_t N, const std::int32_t* observed, int n_observed, const float* query,
               std::int64_t from, std::int64_t to, float* result) {
  std::int64_t n = from;
  constexpr int kVectors = 4;
  for (; n + kVectors * kLanes <= to; n += kVectors * kLanes) {
    Vec<float> sum[kVectors] = {};
    for (int i = 0; i < n_observed; ++i) {
      const float* const column = columns + observed[i] * N + n;
      const float own = query[observed[i]];
      for (int v = 0; v < kVectors; ++v) {
        const Vec<float> difference = load_unaligned(column + v * kLanes) - own;
        sum[v] += difference * difference;
      }
    }
    for (int v = 0; v < kVectors; ++v) store_unaligned(result + n + v * kLanes, sum[v]);
  }
  for (; n < to; ++n) {
    float sum = 0;
    for (int i = 0; i < n_observed; ++i) {
      const float difference = columns[observed[i] * N + n] - query[observed[i]];
      sum += difference * difference;
    }
    result[n] = sum;
  }
}

std::size_t scratch_bytes(int D) {
  bpfa::groups::RowGroups groups{};
  groups.D = D;
  groups.DP = bpfa::padded(D, bpfa::kColumnPadding);
  ScratchMemory memory{nullptr};
  const RowGroup group(groups, memory);
  return memory.used;
}

void student(const bpfa::groups::KeptRows& kept, const bpfa::groups::RowGroups& groups,
             const bpfa::groups::RowQuery& query, bpfa::groups::RowResult* results, void* scratch) {
  ScratchMemory memory{static_cast<char*>(scratch)};
  RowGroup group(groups, memory);
  group.begin(kept, query);
  int n_added = 0;
  for (int c = 0; c < groups.n_groups; ++c) {
    if (c == 0 || groups.members[c] != n_added) {
      group.add_members(kept, query, n_added, groups.members[c]);
      n_added = groups.members[c];
      group.moments(n_added);
    }
    group.predict(query, groups.prior_rows[c], n_added, results[c]);
  }
}

}  // namespace BPFA_ISA

namespace bpfa::groups {
namespace BPFA_ISA {

RowKernels row_kernels() {
  return {::BPFA_ISA::distances,        ::BPFA_ISA::scratch_bytes, ::BPFA_ISA::student,
          ::BPFA_ISA::KindRow::numbers, ::BPFA_ISA::kind_row,      ::BPFA_ISA::add_to_kind};
}

}  // namespace BPFA_ISA
}  // namespace bpfa::groups
