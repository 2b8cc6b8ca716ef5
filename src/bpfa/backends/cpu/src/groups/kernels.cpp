// The kernels of groups for one instruction set. This file is compiled once for each; see ../kernels.cpp.
#include "group.h"

namespace BPFA_ISA {

using bpfa::groups::Picture;

std::size_t scratch_bytes(int D, int n_members) {
  Round round{};
  round.D = D;
  round.DP = bpfa::padded(D, bpfa::kColumnPadding);
  Allocator memory{nullptr};
  const Group group(round, n_members, memory);
  return memory.used;
}

// The squared differences are added up over the rows of a patch first, for all x at once, and then over its width by
// doubling. `scratch` has room for two rows of the picture and two registers.
void differences(const Picture& picture, const float* here, const float* there, int dx, int n_references,
                 const std::int32_t* x, float* result, std::size_t result_step, float* scratch) {
  const int C = picture.channels, length = picture.width * C, window = picture.patch_width * C;
  const int begin = (dx < 0 ? -dx : 0) * C, end = (picture.width - (dx > 0 ? dx : 0)) * C;
  const int room = (length + 3 * kLanes) / kLanes * kLanes;
  float* const part = scratch;
  float* const total = scratch + room;
  int t = begin;
  for (; t + kLanes <= end; t += kLanes) {
    Vec<float> sum{};
    for (int i = 0; i < picture.patch_height; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * length + t;
      const Vec<float> difference = load_unaligned(here + at) - load_unaligned(there + at + dx * C);
      sum += difference * difference;
    }
    store_unaligned(part + t, sum);
  }
  for (; t < end; ++t) {
    float sum = 0;
    for (int i = 0; i < picture.patch_height; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * length + t;
      const float difference = here[at] - there[at + dx * C];
      sum += difference * difference;
    }
    part[t] = sum;
  }
  for (int i = 0; i < 2 * kLanes && end + i < room; ++i) part[end + i] = 0;
  int position = 0;
  bool started = false;
  for (int width = 1; width <= window; width *= 2) {
    if (window & width) {
      for (t = begin; t + position < end; t += kLanes) {
        const Vec<float> more = load_unaligned(part + t + position);
        store_unaligned(total + t, started ? load_unaligned(total + t) + more : more);
      }
      position += width;
      started = true;
    }
    if (2 * width <= window)
      for (t = begin; t < end; t += kLanes) {
        const Vec<float> doubled =
            load_unaligned(part + t) + (t + width < end ? load_unaligned(part + t + width) : Vec<float>{});
        store_unaligned(part + t, doubled);
      }
  }
  for (int r = 0; r < n_references; ++r)
    if (x[r] + dx >= 0 && x[r] + dx + picture.patch_width <= picture.width)
      result[static_cast<std::size_t>(r) * result_step] = total[x[r] * C];
}

}  // namespace BPFA_ISA

namespace bpfa::groups {
namespace BPFA_ISA {

#define BPFA_TEXT_OF(name) #name
#define BPFA_TEXT(name) BPFA_TEXT_OF(name)

GroupKernels kernels() {
  return {BPFA_TEXT(BPFA_ISA), ::BPFA_ISA::scratch_bytes, ::BPFA_ISA::fit_group, ::BPFA_ISA::differences};
}

}  // namespace BPFA_ISA
}  // namespace bpfa::groups
