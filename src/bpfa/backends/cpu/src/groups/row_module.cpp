// Python bindings of the kernels for groups of like rows of a table.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>

#include "../problem.h"
#include "binding.h"
#include "row_driver.h"

namespace nb = nanobind;

namespace bpfa::groups {

namespace {

KeptRows kept_of(const In<float, 2>& values, const In<float, 2>& variance) {
  require(variance.shape(0) == values.shape(0) && variance.shape(1) == values.shape(1),
          "variance: expected the shape of values");
  require(values.shape(0) >= 1 && values.shape(0) < (std::size_t{1} << 31) && values.shape(1) >= 1,
          "values: expected 1 to 2^31 - 1 rows, and a column");
  return {static_cast<std::int64_t>(values.shape(0)), static_cast<int>(values.shape(1)), values.data(),
          variance.data()};
}

RowQueries queries_of(const KeptRows& kept, const In<float, 2>& queries, const In<std::uint8_t, 2>& observed,
                      const In<std::uint8_t, 2>& scored) {
  require(queries.shape(1) == static_cast<std::size_t>(kept.D), "queries: expected the columns of values");
  for (const auto* mask : {&observed, &scored})
    require(mask->shape(0) == queries.shape(0) && mask->shape(1) == queries.shape(1),
            "observed, scored: expected the shape of queries");
  return {static_cast<std::int64_t>(queries.shape(0)), queries.data(), observed.data(), scored.data()};
}

void find(In<float, 2> values, In<float, 2> variance, In<float, 2> columns, In<float, 2> queries,
          In<std::uint8_t, 2> observed, In<std::int32_t, 1> sizes, int n_twins, float tolerance,
          Out<std::int32_t, 2> nearest, int n_threads) {
  const KeptRows kept = kept_of(values, variance);
  const RowQueries asked = queries_of(kept, queries, observed, observed);
  require(columns.shape(0) == values.shape(1) && columns.shape(1) == values.shape(0), "columns: expected D x rows");
  require(sizes.shape(0) >= 1 && sizes(0) >= 1, "sizes: expected at least one");
  require(n_twins >= 1, "n_twins: expected at least 1");
  for (std::size_t i = 1; i < sizes.shape(0); ++i)
    require(sizes(i) > sizes(i - 1), "sizes: expected increasing numbers");
  const std::int32_t largest = sizes(sizes.shape(0) - 1);
  require(largest < kept.N, "sizes: expected fewer than there are kept rows");
  require(nearest.shape(0) == queries.shape(0) && nearest.shape(1) == static_cast<std::size_t>(largest),
          "nearest: expected queries x the largest size");
  nb::gil_scoped_release release;
  nearest_rows(kept, columns.data(), asked, sizes.data(), static_cast<int>(sizes.shape(0)), n_twins, tolerance,
               nearest.data(), n_threads);
}

void predict(In<float, 2> values, In<float, 2> variance, In<float, 2> queries, In<std::uint8_t, 2> observed,
             In<std::uint8_t, 2> scored, In<std::int32_t, 2> nearest, In<float, 2> covariance,
             In<std::int32_t, 1> members, In<float, 1> prior_rows, float mean_rows, float scale_rows,
             float correlation_share, Out<float, 3> mean, Out<float, 3> square_scale, Out<double, 3> sums,
             int n_threads) {
  const KeptRows kept = kept_of(values, variance);
  const RowQueries asked = queries_of(kept, queries, observed, scored);
  const std::size_t D = values.shape(1), C = members.shape(0), Q = queries.shape(0);
  require(covariance.shape(0) == D && covariance.shape(1) == D, "covariance: expected the shape (D, D)");
  require(prior_rows.shape(0) == C && C >= 1, "prior_rows: expected one number for each group");
  require(nearest.shape(0) == Q, "nearest: expected one row for each query");
  for (std::size_t c = 0; c < C; ++c)
    require(members(c) >= 1 && static_cast<std::size_t>(members(c)) <= nearest.shape(1) &&
                (c == 0 || members(c) >= members(c - 1)) && prior_rows(c) > 0,
            "members, prior_rows: expected ascending sizes of groups, and numbers > 0");
  for (std::size_t i = 0; i < Q * nearest.shape(1); ++i)
    require(nearest.data()[i] >= 0 && nearest.data()[i] < kept.N, "nearest: expected numbers of kept rows");
  for (const auto* out : {&mean, &square_scale})
    require(out->shape(0) == C && out->shape(1) == Q && out->shape(2) == D, "mean: expected groups x queries x D");
  require(sums.shape(0) == 3 && sums.shape(1) == C && sums.shape(2) == Q, "sums: expected 3 x groups x queries");
  const RowGroups groups{static_cast<int>(D), padded(static_cast<int>(D), kColumnPadding),
                         static_cast<int>(C), members.data(),
                         prior_rows.data(),   covariance.data(),
                         mean_rows,           scale_rows,
                         correlation_share};
  nb::gil_scoped_release release;
  student_rows(kept, asked, nearest.data(), static_cast<int>(nearest.shape(1)), groups, mean.data(),
               square_scale.data(), sums.data(), sums.data() + C * Q, sums.data() + 2 * C * Q, n_threads);
}

RowKinds kinds_of(const In<double, 2>& mean, const In<double, 3>& precision, const In<double, 1>& freedom) {
  const std::size_t R = mean.shape(0), D = mean.shape(1);
  require(precision.shape(0) == R && precision.shape(1) == D && precision.shape(2) == D && freedom.shape(0) == R,
          "mean, precision, freedom: expected kinds x D, kinds x D x D, and one number for each kind");
  return {static_cast<int>(D), static_cast<int>(R), mean.data(), precision.data(), freedom.data()};
}

RowQueries rows_of(const RowKinds& kinds, const In<float, 2>& values, const In<std::uint8_t, 2>& observed,
                   const In<std::uint8_t, 2>& scored) {
  require(values.shape(1) == static_cast<std::size_t>(kinds.D), "values: expected the columns of the kinds");
  for (const auto* mask : {&observed, &scored})
    require(mask->shape(0) == values.shape(0) && mask->shape(1) == values.shape(1),
            "observed, scored: expected the shape of values");
  return {static_cast<std::int64_t>(values.shape(0)), values.data(), observed.data(), scored.data()};
}

void of_kinds(In<double, 2> kind_mean, In<double, 3> precision, In<double, 1> freedom, In<float, 2> values,
              In<std::uint8_t, 2> observed, In<std::uint8_t, 2> scored, std::optional<Out<float, 3>> mean,
              std::optional<Out<float, 3>> square_scale, Out<double, 3> sums, int n_threads) {
  const RowKinds kinds = kinds_of(kind_mean, precision, freedom);
  const RowQueries queries = rows_of(kinds, values, observed, scored);
  const std::size_t R = kind_mean.shape(0), D = kind_mean.shape(1), Q = values.shape(0);
  require(mean.has_value() == square_scale.has_value(), "mean, square_scale: expected both or neither");
  for (const auto* out : {&mean, &square_scale})
    if (out->has_value())
      require((*out)->shape(0) == R && (*out)->shape(1) == Q && (*out)->shape(2) == D,
              "mean, square_scale: expected kinds x rows x D");
  require(sums.shape(0) == 4 && sums.shape(1) == R && sums.shape(2) == Q, "sums: expected 4 x kinds x rows");
  nb::gil_scoped_release release;
  kind_rows(kinds, queries, mean ? mean->data() : nullptr, square_scale ? square_scale->data() : nullptr, sums.data(),
            n_threads);
}

void sum_kinds(In<double, 2> kind_mean, In<double, 3> precision, In<double, 1> freedom, In<float, 2> values,
               In<std::uint8_t, 2> observed, In<double, 2> shares, Out<double, 2> first, Out<double, 3> second,
               int n_threads) {
  const RowKinds kinds = kinds_of(kind_mean, precision, freedom);
  const RowQueries rows = rows_of(kinds, values, observed, observed);
  const std::size_t R = kind_mean.shape(0), D = kind_mean.shape(1);
  require(shares.shape(0) == R && shares.shape(1) == values.shape(0), "shares: expected kinds x rows");
  require(first.shape(0) == R && first.shape(1) == D, "first: expected kinds x D");
  require(second.shape(0) == R && second.shape(1) == D && second.shape(2) == D, "second: expected kinds x D x D");
  nb::gil_scoped_release release;
  kind_sums(kinds, rows, shares.data(), first.data(), second.data(), n_threads);
}

}  // namespace

void bind_rows(nb::module_& m) {
  using namespace nb::literals;
  m.def("nearest_rows", &find, "values"_a.noconvert(), "variance"_a.noconvert(), "columns"_a.noconvert(),
        "queries"_a.noconvert(), "observed"_a.noconvert(), "sizes"_a.noconvert(), "n_twins"_a, "tolerance"_a,
        "nearest"_a.noconvert(), "n_threads"_a, "Fill in the kept rows that are most like each query.");
  m.def("student_rows", &predict, "values"_a.noconvert(), "variance"_a.noconvert(), "queries"_a.noconvert(),
        "observed"_a.noconvert(), "scored"_a.noconvert(), "nearest"_a.noconvert(), "covariance"_a.noconvert(),
        "members"_a.noconvert(), "prior_rows"_a.noconvert(), "mean_rows"_a, "scale_rows"_a, "correlation_share"_a,
        "mean"_a.noconvert(), "square_scale"_a.noconvert(), "sums"_a.noconvert(), "n_threads"_a,
        "Fill in what the groups of every query predict for it.");
  m.def("kind_rows", &of_kinds, "kind_mean"_a.noconvert(), "precision"_a.noconvert(), "freedom"_a.noconvert(),
        "values"_a.noconvert(), "observed"_a.noconvert(), "scored"_a.noconvert(), "mean"_a.noconvert().none(),
        "square_scale"_a.noconvert().none(), "sums"_a.noconvert(), "n_threads"_a,
        "Fill in what every kind of rows says of every row.");
  m.def("kind_sums", &sum_kinds, "kind_mean"_a.noconvert(), "precision"_a.noconvert(), "freedom"_a.noconvert(),
        "values"_a.noconvert(), "observed"_a.noconvert(), "shares"_a.noconvert(), "first"_a.noconvert(),
        "second"_a.noconvert(), "n_threads"_a, "Fill in the sums of every kind over its rows.");
}

}  // namespace bpfa::groups
