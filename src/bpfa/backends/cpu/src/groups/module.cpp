// Python bindings of the kernels for groups of like rows.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>

#include "../problem.h"
#include "binding.h"
#include "driver.h"

namespace nb = nanobind;

namespace bpfa::groups {
void bind_rows(nb::module_& m);  // row_module.cpp
}

namespace {

using bpfa::In;
using bpfa::Out;
using bpfa::require;
namespace groups = bpfa::groups;

void find_members(In<float, 4> values, In<std::int32_t, 1> slices, In<std::int32_t, 1> y, In<std::int32_t, 1> x,
                  int patch_height, int patch_width, int reach, int slice_reach, float distance_weight,
                  Out<std::int64_t, 3> first, int n_threads) {
  require(slices.shape(0) == y.shape(0), "slices: expected as many as y");
  require(first.shape(0) == y.shape(0) && first.shape(1) == x.shape(0), "first: expected rows x references x members");
  require(patch_height >= 1 && patch_width >= 1 && static_cast<std::size_t>(patch_height) <= values.shape(1) &&
              static_cast<std::size_t>(patch_width) <= values.shape(2),
          "patch_height, patch_width: expected a patch that fits into the picture");
  require(reach >= 0 && slice_reach >= 0 && reach < 4096 && slice_reach < 64, "reach: expected 0 to 4095");
  for (std::size_t i = 0; i < y.shape(0); ++i)
    require(y(i) >= 0 && static_cast<std::size_t>(y(i) + patch_height) <= values.shape(1) && slices(i) >= 0 &&
                static_cast<std::size_t>(slices(i)) < values.shape(0),
            "y, slices: expected references inside the picture");
  for (std::size_t i = 0; i < x.shape(0); ++i)
    require(x(i) >= 0 && static_cast<std::size_t>(x(i) + patch_width) <= values.shape(2),
            "x: expected references inside the picture");
  const groups::Search search{{static_cast<int>(values.shape(1)), static_cast<int>(values.shape(2)),
                               static_cast<int>(values.shape(3)), patch_height, patch_width},
                              static_cast<int>(values.shape(0)),
                              values.data(),
                              slices.data(),
                              y.data(),
                              static_cast<int>(y.shape(0)),
                              x.data(),
                              static_cast<int>(x.shape(0)),
                              reach,
                              slice_reach,
                              distance_weight,
                              static_cast<int>(first.shape(2))};
  nb::gil_scoped_release release;
  groups::find_members(search, first.data(), n_threads);
}

// What all groups of a round have in common, as Python supplies it.
groups::Round round_of(const In<float, 1>& current, const In<float, 1>& seen, const In<std::uint8_t, 1>& observed,
                       const In<std::int64_t, 1>& offsets, const In<std::int64_t, 2>& first, const In<float, 1>& noise,
                       const std::optional<In<double, 1>>& log_prior, const std::optional<In<float, 2>>& prior,
                       float prior_rows, float floor, float weight_share, int n_iterations) {
  const std::size_t n = current.shape(0), D = offsets.shape(0);
  require(seen.shape(0) == n && observed.shape(0) == n, "seen, observed: expected the size of current");
  require(D >= 1 && noise.shape(0) == D, "noise: expected one number for each column");
  require(!log_prior || log_prior->shape(0) == D + 1, "log_prior: expected D + 1 numbers");
  require(!prior || (prior->shape(0) == D && prior->shape(1) == D), "prior: expected the shape (D, D)");
  require(first.shape(1) >= 1 && n_iterations >= 1 && floor > 0, "n_iterations, floor: expected at least 1, and > 0");
  std::int64_t last = 0;
  for (std::size_t d = 0; d < D; ++d) {
    require(offsets(d) >= 0 && noise(d) > 0, "offsets, noise: expected numbers that are not negative");
    last = std::max(last, offsets(d));
  }
  const std::size_t n_first = first.shape(0) * first.shape(1);
  for (std::size_t i = 0; i < n_first; ++i)
    require(first.data()[i] < static_cast<std::int64_t>(n) - last && (first.data()[i] >= 0 || i % first.shape(1) != 0),
            "first: expected members inside the arrays, and at least one in each group");
  return {static_cast<int>(D),
          bpfa::padded(static_cast<int>(D), bpfa::kColumnPadding),
          static_cast<int>(first.shape(1)),
          current.data(),
          seen.data(),
          observed.data(),
          offsets.data(),
          noise.data(),
          log_prior ? log_prior->data() : nullptr,
          prior ? prior->data() : nullptr,
          prior_rows,
          floor,
          weight_share,
          n_iterations};
}

void fit_groups(In<float, 1> current, In<float, 1> seen, In<std::uint8_t, 1> observed, In<std::int64_t, 1> offsets,
                In<std::int64_t, 2> first, In<float, 1> noise, std::optional<In<double, 1>> log_prior,
                std::optional<In<float, 2>> prior, float prior_rows, float floor, float weight_share, int n_iterations,
                In<std::int64_t, 1> blocks, Out<float, 2> average, Out<std::int32_t, 1> ranks, Out<double, 2> residuals,
                int n_threads) {
  const groups::Round round = round_of(current, seen, observed, offsets, first, noise, log_prior, prior, prior_rows,
                                       floor, weight_share, n_iterations);
  const std::size_t n = current.shape(0), D = offsets.shape(0);
  require(average.shape(0) == 4 && average.shape(1) == n, "average: expected 4 x the size of current");
  require(ranks.shape(0) == first.shape(0), "ranks: expected one for each group");
  require(residuals.shape(0) == 2 && residuals.shape(1) == D, "residuals: expected 2 x columns");
  require(blocks.shape(0) >= 1 && blocks(0) == 0 &&
              blocks(blocks.shape(0) - 1) == static_cast<std::int64_t>(first.shape(0)),
          "blocks: expected the first group of each block, and the number of groups");
  for (std::size_t b = 0; b + 1 < blocks.shape(0); ++b)
    require(blocks(b) <= blocks(b + 1), "blocks: expected increasing numbers");
  float* const sums = average.data();
  const groups::Average target{sums, sums + n, sums + 2 * n, sums + 3 * n};
  nb::gil_scoped_release release;
  groups::fit_groups(round, first.data(), blocks.data(), static_cast<int>(blocks.shape(0)) - 1, target, ranks.data(),
                     residuals.data(), residuals.data() + D, n_threads);
}

void fit_members(In<float, 1> current, In<float, 1> seen, In<std::uint8_t, 1> observed, In<std::int64_t, 1> offsets,
                 In<std::int64_t, 2> first, In<float, 1> noise, std::optional<In<double, 1>> log_prior,
                 std::optional<In<float, 2>> prior, float prior_rows, float floor, int n_iterations, Out<float, 3> mean,
                 Out<float, 3> variance, Out<std::int32_t, 1> ranks, Out<double, 2> residuals, int n_threads) {
  const groups::Round round =
      round_of(current, seen, observed, offsets, first, noise, log_prior, prior, prior_rows, floor, 0.5f, n_iterations);
  const std::size_t G = first.shape(0), D = offsets.shape(0);
  for (const auto* out : {&mean, &variance})
    require(out->shape(0) == G && out->shape(1) <= first.shape(1) && out->shape(2) == D,
            "mean, variance: expected groups x members x columns");
  require(mean.shape(1) == variance.shape(1) && ranks.shape(0) == G, "ranks: expected one for each group");
  require(residuals.shape(0) == 2 && residuals.shape(1) == D, "residuals: expected 2 x columns");
  nb::gil_scoped_release release;
  groups::fit_members(round, first.data(), static_cast<std::int64_t>(G), static_cast<int>(mean.shape(1)), mean.data(),
                      variance.data(), ranks.data(), residuals.data(), residuals.data() + D, n_threads);
}

}  // namespace

NB_MODULE(_groups, m) {
  using namespace nb::literals;
  m.def("find_members", &find_members, "values"_a.noconvert(), "slices"_a.noconvert(), "y"_a.noconvert(),
        "x"_a.noconvert(), "patch_height"_a, "patch_width"_a, "reach"_a, "slice_reach"_a, "distance_weight"_a,
        "first"_a.noconvert(), "n_threads"_a, "Fill in where the members of the group of each reference patch begin.");
  m.def("fit_groups", &fit_groups, "current"_a.noconvert(), "seen"_a.noconvert(), "observed"_a.noconvert(),
        "offsets"_a.noconvert(), "first"_a.noconvert(), "noise"_a.noconvert(), "log_prior"_a.noconvert().none(),
        "prior"_a.noconvert().none(), "prior_rows"_a, "floor"_a, "weight_share"_a, "n_iterations"_a,
        "blocks"_a.noconvert(), "average"_a.noconvert(), "ranks"_a.noconvert(), "residuals"_a.noconvert(),
        "n_threads"_a, "Fit a factor model to each group and add what it says of its members to the average.");
  m.def("fit_members", &fit_members, "current"_a.noconvert(), "seen"_a.noconvert(), "observed"_a.noconvert(),
        "offsets"_a.noconvert(), "first"_a.noconvert(), "noise"_a.noconvert(), "log_prior"_a.noconvert().none(),
        "prior"_a.noconvert().none(), "prior_rows"_a, "floor"_a, "n_iterations"_a, "mean"_a.noconvert(),
        "variance"_a.noconvert(), "ranks"_a.noconvert(), "residuals"_a.noconvert(), "n_threads"_a,
        "Fit a factor model to each group and fill in what it says of its first members.");
  groups::bind_rows(m);
}
