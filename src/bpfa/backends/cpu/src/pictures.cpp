// Predictions of the patches of a picture, and their weighted average; see pictures.h.
#include "pictures.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "buffer.h"
#include "pool.h"
#include "prepared.h"
#include "threads.h"

namespace bpfa {

namespace {

// The number of patches that a thread takes at a time.
constexpr int kPatches = 16;

// Copies patches out of the picture, and returns the largest number of observed entries of any of them.
template <class Real>
int gather(const Patches<Real>& patches, std::int64_t first, int n, int D, Real* values, std::uint8_t* observed,
           std::uint8_t* informed) {
  int most = 0;
  for (int i = 0; i < n; ++i) {
    const std::int64_t at = patches.first[first + i];
    for (int d = 0; d < D; ++d) *values++ = patches.values[at + patches.offsets[d]];
    int count = patches.observed ? 0 : D;
    if (patches.observed)
      for (int d = 0; d < D; ++d) {
        *observed = patches.observed[at + patches.offsets[d]];
        count += *observed++ != 0;
      }
    informed[i] = count > 0;
    most = std::max(most, count);
  }
  return most;
}

// The largest number of observed entries of any patch.
template <class Real>
int most_observed(const Patches<Real>& patches, int D, int n_threads) {
  std::vector<int> most(n_threads, 0);
  constexpr std::int64_t kMany = 1024;
  parallel_for(n_threads, (patches.n + kMany - 1) / kMany, [&](std::int64_t task, int worker) {
    for (std::int64_t i = task * kMany; i < std::min(patches.n, (task + 1) * kMany); ++i) {
      int count = 0;
      for (int d = 0; d < D; ++d) count += patches.observed[patches.first[i] + patches.offsets[d]] != 0;
      most[worker] = std::max(most[worker], count);
    }
  });
  return *std::max_element(most.begin(), most.end());
}

// The memory of a thread for the patches that it works on.
template <class Real>
struct Work {
  Buffer<Real> values, value;
  Buffer<std::uint8_t> observed;
  Buffer<std::size_t> start;
  Buffer<std::int32_t> count, feature;
  Buffer<char> scratch;

  Work(int K, int D, int n_lists, bool missing, std::size_t scratch_bytes)
      : values(static_cast<std::size_t>(kPatches) * D),
        value(static_cast<std::size_t>(kPatches) * n_lists * K),
        observed(missing ? static_cast<std::size_t>(kPatches) * D : 0),
        start(static_cast<std::size_t>(kPatches) * n_lists),
        count(static_cast<std::size_t>(kPatches) * n_lists),
        feature(static_cast<std::size_t>(kPatches) * n_lists * K),
        scratch(scratch_bytes) {}

  // What the kernels fill: the features that are on in every kept sample of a patch.
  Chunk<Real> chunk() {
    Chunk<Real> chunk{};
    chunk.start = start.get();
    chunk.count = count.get();
    chunk.feature = feature.get();
    chunk.value = value.get();
    return chunk;
  }
};

}  // namespace

template <class Real>
bool predict_patches(const View& view, const Settings& settings, const Patches<Real>& patches, int n_before,
                     const Predictions<Real>& out, int n_threads, const std::string& instruction_set,
                     const std::function<bool()>& keep_going) {
  if (patches.n == 0) return true;
  const Kernels<Real>& kernels = kernels_of<Real>(kernel_set(instruction_set));
  const int K = view.K, D = view.D;
  const bool complete = patches.observed == nullptr;
  n_threads = static_cast<int>(std::min<std::int64_t>(thread_count(n_threads), (patches.n - 1) / kPatches + 1));
  const bool uses_gram = !complete && gram_pays(K, D, most_observed(patches, D, n_threads));
  const PreparedGlobals<Real> prepared(view, complete, uses_gram, true, kernels, n_threads);
  const Globals<Real>& g = prepared.globals;
  std::vector<Work<Real>> works;
  works.reserve(n_threads);
  for (int i = 0; i < n_threads; ++i)
    works.emplace_back(K, D, settings.n_samples + 1, !complete, kernels.scratch_bytes(K, D));

  // As in `run`, the calling thread asks from time to time whether to continue.
  std::atomic<bool> stop{false};
  auto last_poll = std::chrono::steady_clock::now();
  parallel_for(n_threads, (patches.n + kPatches - 1) / kPatches, [&](std::int64_t task, int worker) {
    if (stop) return;
    Work<Real>& work = works[worker];
    const std::int64_t first = task * kPatches;
    const int n = static_cast<int>(std::min<std::int64_t>(kPatches, patches.n - first));
    gather(patches, first, n, D, work.values.get(), work.observed.get(), out.informed + first);
    const Rows<Real> rows{
        n, work.values.get(), complete ? nullptr : work.observed.get(), patches.ids + first, nullptr, nullptr};
    const Chunk<Real> chunk = work.chunk();
    kernels.rows(g, settings, rows, 0, n, chunk, 0, RowOutput<Real>{}, work.scratch.get());
    kernels.add_predictions(g, settings.n_samples, chunk, n, n_before, out.mean + first * D, out.squares + first * D);
    if (worker != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_poll < std::chrono::milliseconds(100)) return;
    last_poll = now;
    if (!keep_going()) stop = true;
  });
  return !stop;
}

template <class Real>
void fold_patches(const Strip& strip, const Predictions<Real>& predictions, int n_predictions, double noise,
                  double empty_weight, const PixelSums& sums, int n_threads) {
  // Every thread takes lines of the picture, which no other thread writes, and goes through the patches over them in
  // order. So the sums do not depend on the number of threads.
  const std::int64_t top = strip.y[0], bottom = strip.y[strip.n_y - 1] + strip.patch_height;
  const int segment = strip.patch_width * strip.n_channels, D = strip.patch_height * segment;
  parallel_for(thread_count(n_threads), bottom - top, [&](std::int64_t task, int) {
    const std::int64_t y = top + task;
    const std::size_t line = static_cast<std::size_t>(y) * strip.width * strip.n_channels;
    for (int row = 0; row < strip.n_y; ++row) {
      const std::int64_t within = y - strip.y[row];
      if (within < 0 || within >= strip.patch_height) continue;
      for (int column = 0; column < strip.n_x; ++column) {
        const std::size_t patch = static_cast<std::size_t>(row) * strip.n_x + column;
        const Real* mean = predictions.mean + patch * D + within * segment;
        const Real* squares = predictions.squares + patch * D + within * segment;
        const bool informed = predictions.informed[patch] != 0;
        const double full = informed ? 1.0 : empty_weight;
        const std::size_t at = line + static_cast<std::size_t>(strip.x[column]) * strip.n_channels;
        for (int i = 0; i < segment; ++i) {
          const double m = mean[i], variance = static_cast<double>(squares[i]) / (n_predictions - 1);
          const double weight = full / (variance + noise);
          sums.weight[at + i] += weight;
          sums.first[at + i] += weight * m;
          sums.second[at + i] += weight * (variance + m * m);
        }
        if (informed)
          for (int i = 0; i < segment; ++i) sums.informed[at + i] = 1;
      }
    }
  });
}

template bool predict_patches<float>(const View&, const Settings&, const Patches<float>&, int,
                                     const Predictions<float>&, int, const std::string&, const std::function<bool()>&);
template bool predict_patches<double>(const View&, const Settings&, const Patches<double>&, int,
                                      const Predictions<double>&, int, const std::string&,
                                      const std::function<bool()>&);
template void fold_patches<float>(const Strip&, const Predictions<float>&, int, double, double, const PixelSums&, int);
template void fold_patches<double>(const Strip&, const Predictions<double>&, int, double, double, const PixelSums&,
                                   int);

}  // namespace bpfa
