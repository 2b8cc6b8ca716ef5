// Python bindings of the CPU kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "binding.h"
#include "collapsed.h"
#include "driver.h"
#include "pictures.h"
#include "signal.h"

namespace nb = nanobind;

namespace {

using bpfa::function_of;
using bpfa::In;
using bpfa::Out;
using bpfa::require;
using OutAny = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

template <class Array>
auto data_or_null(const std::optional<Array>& array) {
  return array ? array->data() : nullptr;
}

// The arrays that sums are added to, as Python supplies them; bpfa::Sums says what they are.
using SumArray = std::optional<OutAny>;
struct SumArrays {
  SumArrays(SumArray n, SumArray zw2, SumArray x2, SumArray xr, SumArray xy, SumArray xx, SumArray total_zw2,
            SumArray w2, SumArray rr)
      : n(std::move(n)),
        zw2(std::move(zw2)),
        x2(std::move(x2)),
        xr(std::move(xr)),
        xy(std::move(xy)),
        xx(std::move(xx)),
        total_zw2(std::move(total_zw2)),
        w2(std::move(w2)),
        rr(std::move(rr)) {}

  SumArray n, zw2, x2, xr, xy, xx, total_zw2, w2, rr;
};

// Returns false if a signal handler of Python, such as that of Ctrl-C, has raised an exception. The rows are worked on
// without the GIL, so it is acquired here. The exception stays pending, and `run` raises it.
bool no_signal() {
  nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() == 0;
}

bpfa::View view_of(const In<double, 2>& phi, const In<double, 2>& v, const In<double, 1>& logit, double g_o,
                   double g_w) {
  const std::size_t K = phi.shape(0), D = phi.shape(1);
  require(K >= 1 && D >= 1 && K < (1u << 24) && D < (1u << 24), "phi: expected 1 to 2^24 features and columns");
  require(v.shape(0) == K && (v.shape(1) == D || v.shape(1) == 1), "v: expected the shape of phi, or one column");
  require(logit.shape(0) == K, "logit: expected one number for each feature");
  return {static_cast<int>(K),          static_cast<int>(D), phi.data(), v.data(),
          static_cast<int>(v.shape(1)), logit.data(),        g_o,        g_w};
}

template <class Real>
void run(int method, In<double, 2> phi, In<double, 2> v, In<double, 1> logit, double g_o, double g_w,
         In<Real, 2> values, std::optional<In<std::uint8_t, 2>> observed, In<std::int64_t, 1> ids,
         std::optional<In<Real, 2>> start_z, std::optional<In<Real, 2>> start_w, std::uint64_t key, std::uint32_t step,
         int first_sweep, int burn_in, int n_samples, int n_sweeps, std::uint32_t dropout,
         std::optional<SumArrays> sum_arrays, std::optional<Out<Real, 3>> posterior, std::optional<Out<Real, 3>> state,
         int n_threads, const std::string& instruction_set) {
  const bpfa::View view = view_of(phi, v, logit, g_o, g_w);
  const std::size_t K = phi.shape(0), D = phi.shape(1), N = values.shape(0);
  require(values.shape(1) == D, "values: expected as many columns as phi");
  require(!observed || (observed->shape(0) == N && observed->shape(1) == D), "observed: expected the shape of values");
  require(ids.shape(0) == N, "ids: expected one number for each row");
  require(start_z.has_value() == start_w.has_value(), "start_z, start_w: expected both or neither");
  for (const auto* start : {&start_z, &start_w})
    require(!*start || ((*start)->shape(0) == N && (*start)->shape(1) == K),
            "start_z, start_w: expected the shape (rows, features)");
  require(method >= 0 && method <= 3, "method: expected 0 to 3");
  const bool gibbs = method <= 1;
  require(gibbs || dropout == 0, "dropout: expected 0 for a method other than Gibbs sampling");
  require(first_sweep >= 1 && burn_in >= 0 && n_samples >= 1 && (gibbs || n_sweeps >= 1),
          "first_sweep, n_samples, n_sweeps: expected at least 1; burn_in: expected at least 0");
  require(std::int64_t{first_sweep} + burn_in + n_samples <= 65536,
          "first_sweep + burn_in + n_samples: expected at most 65536");
  for (const auto* out : {&posterior, &state}) {
    const std::size_t planes = out == &posterior ? 3 : 2;
    require(!*out || ((*out)->shape(0) == planes && (*out)->shape(1) == N && (*out)->shape(2) == K),
            "posterior, state: expected the shapes (3, rows, features) and (2, rows, features)");
  }
  bpfa::RowOutput<Real> output{};
  if (posterior) {
    output.z = posterior->data();
    output.x = output.z + N * K;
    output.zw2 = output.x + N * K;
  }
  if (state) {
    output.state_z = state->data();
    output.state_w = output.state_z + N * K;
  }
  const bpfa::Settings settings{
      static_cast<bpfa::Method>(method), key, step, first_sweep, burn_in, n_samples, n_sweeps, dropout};
  const bpfa::Rows<Real> rows{static_cast<std::int64_t>(N), values.data(),        data_or_null(observed), ids.data(),
                              data_or_null(start_z),        data_or_null(start_w)};
  bpfa::Sums sums{};
  if (sum_arrays) {
    const std::size_t DP = bpfa::padded(static_cast<int>(D), bpfa::kColumnPadding);
    const auto take = [](const std::optional<OutAny>& array, std::size_t size) -> double* {
      if (!array) return nullptr;
      require(array->size() == size, "sums: an array has the wrong size; expected the sizes given in problem.h");
      return array->data();
    };
    sums = {take(sum_arrays->n, K),
            take(sum_arrays->zw2, K * DP),
            take(sum_arrays->x2, observed ? K * DP : K),
            take(sum_arrays->xr, K * DP),
            take(sum_arrays->xy, K * DP),
            take(sum_arrays->xx, observed ? D * K * K : K * K),
            take(sum_arrays->total_zw2, K),
            take(sum_arrays->w2, 1),
            take(sum_arrays->rr, DP / bpfa::kColumnPadding)};
    require(sums.n && sums.total_zw2 && sums.rr && (!observed || sums.zw2) && (gibbs || (sums.x2 && sums.w2)),
            "sums: an array is missing; expected all that the method fills");
    require(!sums.xr != !sums.xy && !sums.xx == !sums.xy, "sums: expected either xr alone or both xy and xx");
  }
  bool finished;
  {
    nb::gil_scoped_release release;
    finished = bpfa::run<Real>(view, settings, rows, output, sum_arrays ? &sums : nullptr, n_threads, instruction_set,
                               no_signal);
  }
  if (!finished) throw nb::python_error();
}

template <class Real>
void define_run(nb::module_& m, const char* name) {
  using namespace nb::literals;
  m.def(name, &run<Real>, "method"_a, "phi"_a, "v"_a, "logit"_a, "g_o"_a, "g_w"_a, "values"_a, "observed"_a.none(),
        "ids"_a, "start_z"_a.none(), "start_w"_a.none(), "key"_a, "step"_a, "first_sweep"_a, "burn_in"_a, "n_samples"_a,
        "n_sweeps"_a, "dropout"_a, "sums"_a.none(), "posterior"_a.noconvert().none(), "state"_a.noconvert().none(),
        "n_threads"_a, "instruction_set"_a,
        "Run a local method over the rows: add to the arrays of `sums`, fill `posterior` and `state`.");
}

template <class Real>
void predict_patches(int method, In<double, 2> phi, In<double, 2> v, In<double, 1> logit, double g_o, double g_w,
                     In<Real, 1> values, std::optional<In<std::uint8_t, 1>> observed, In<std::int64_t, 1> first,
                     In<std::int64_t, 1> offsets, In<std::int64_t, 1> ids, std::uint64_t key, std::uint32_t step,
                     int burn_in, int n_samples, int n_before, Out<Real, 2> mean, Out<Real, 2> squares,
                     Out<std::uint8_t, 1> informed, int n_threads, const std::string& instruction_set) {
  const bpfa::View view = view_of(phi, v, logit, g_o, g_w);
  const std::size_t D = phi.shape(1), N = ids.shape(0);
  require(!observed || observed->shape(0) == values.shape(0), "observed: expected the shape of values");
  require(first.shape(0) == N && offsets.shape(0) == D, "first, offsets: expected as many as patches and columns");
  std::int64_t furthest = 0;
  for (std::size_t d = 0; d < D; ++d) {
    require(offsets.data()[d] >= 0, "offsets: expected numbers that are not negative");
    furthest = std::max(furthest, offsets.data()[d]);
  }
  for (std::size_t i = 0; i < N; ++i)
    require(first.data()[i] >= 0 && first.data()[i] + furthest < static_cast<std::int64_t>(values.shape(0)),
            "first: expected patches inside of the picture");
  for (const auto* out : {&mean, &squares})
    require(out->shape(0) == N && out->shape(1) == D, "mean, squares: expected the shape (patches, columns)");
  require(informed.shape(0) == N, "informed: expected one number for each patch");
  require(method == 0 || method == 1, "method: expected one of Gibbs sampling");
  require(burn_in >= 0 && n_samples >= 1 && n_before >= 0 && std::int64_t{burn_in} + n_samples < 65536,
          "burn_in, n_samples: expected at most 65535 sweeps");
  const bpfa::Settings settings{static_cast<bpfa::Method>(method), key, step, 1, burn_in, n_samples, 0, 0};
  const bpfa::Patches<Real> patches{
      static_cast<std::int64_t>(N), values.data(), data_or_null(observed), first.data(), offsets.data(), ids.data()};
  bool finished;
  {
    nb::gil_scoped_release release;
    finished =
        bpfa::predict_patches<Real>(view, settings, patches, n_before, {mean.data(), squares.data(), informed.data()},
                                    n_threads, instruction_set, no_signal);
  }
  if (!finished) throw nb::python_error();
}

template <class Real>
void fold_patches(In<std::int64_t, 1> y, In<std::int64_t, 1> x, int patch_height, int patch_width, Out<Real, 2> mean,
                  Out<Real, 2> squares, Out<std::uint8_t, 1> informed, int n_predictions, double noise,
                  double empty_weight, Out<double, 3> weight, Out<double, 3> first, Out<double, 3> second,
                  Out<std::uint8_t, 3> any_informed, int n_threads) {
  const std::size_t n = y.shape(0) * x.shape(0), height = weight.shape(0), width = weight.shape(1),
                    n_channels = weight.shape(2), D = patch_height * patch_width * n_channels;
  require(y.shape(0) >= 1 && x.shape(0) >= 1 && patch_height >= 1 && patch_width >= 1, "y, x: expected a patch");
  for (const auto* out : {&first, &second})
    require(out->shape(0) == height && out->shape(1) == width && out->shape(2) == n_channels,
            "first, second: expected the shape of weight");
  require(any_informed.size() == weight.size(), "any_informed: expected the shape of weight");
  require(mean.shape(0) == n && squares.shape(0) == n && informed.shape(0) == n && mean.shape(1) == D &&
              squares.shape(1) == D,
          "mean, squares, informed: expected one row for each patch");
  for (std::size_t i = 0; i < y.shape(0); ++i)
    require(y.data()[i] >= (i ? y.data()[i - 1] : 0) && y.data()[i] + patch_height <= static_cast<std::int64_t>(height),
            "y: expected ascending numbers inside of the picture");
  for (std::size_t i = 0; i < x.shape(0); ++i)
    require(x.data()[i] >= 0 && x.data()[i] + patch_width <= static_cast<std::int64_t>(width),
            "x: expected numbers inside of the picture");
  require(n_predictions >= 2, "n_predictions: expected at least 2");
  const bpfa::Strip strip{
      static_cast<int>(y.shape(0)), static_cast<int>(x.shape(0)), y.data(), x.data(), patch_height, patch_width,
      static_cast<int>(width),      static_cast<int>(n_channels)};
  nb::gil_scoped_release release;
  bpfa::fold_patches<Real>(strip, {mean.data(), squares.data(), informed.data()}, n_predictions, noise, empty_weight,
                           {weight.data(), first.data(), second.data(), any_informed.data()}, n_threads);
}

template <class Real>
void define_pictures(nb::module_& m, const char* predict, const char* fold) {
  using namespace nb::literals;
  m.def(predict, &predict_patches<Real>, "method"_a, "phi"_a, "v"_a, "logit"_a, "g_o"_a, "g_w"_a,
        "values"_a.noconvert(), "observed"_a.noconvert().none(), "first"_a.noconvert(), "offsets"_a.noconvert(),
        "ids"_a.noconvert(), "key"_a, "step"_a, "burn_in"_a, "n_samples"_a, "n_before"_a, "mean"_a.noconvert(),
        "squares"_a.noconvert(), "informed"_a.noconvert(), "n_threads"_a, "instruction_set"_a,
        "Run the chains of patches of a picture, and include their predictions in `mean` and `squares`.");
  m.def(fold, &fold_patches<Real>, "y"_a, "x"_a, "patch_height"_a, "patch_width"_a, "mean"_a.noconvert(),
        "squares"_a.noconvert(), "informed"_a.noconvert(), "n_predictions"_a, "noise"_a, "empty_weight"_a,
        "weight"_a.noconvert(), "first"_a.noconvert(), "second"_a.noconvert(), "any_informed"_a.noconvert(),
        "n_threads"_a, "Add the predictions of a strip of patches to the sums of the pixels.");
}

std::int64_t signal(nb::capsule potrf, nb::capsule syrk, nb::capsule trsm, nb::capsule trsv, In<std::uint8_t, 2> on,
                    In<std::uint8_t, 2> observed, In<double, 2> phi_t, In<double, 2> gram, In<double, 2> products,
                    double g_o, double g_w, Out<double, 2> weights, Out<double, 2> variance, int n_threads) {
  const std::size_t N = on.shape(0), K = on.shape(1), D = observed.shape(1);
  require(observed.shape(0) == N, "observed: expected as many rows as on");
  require(phi_t.shape(0) == D && phi_t.shape(1) == K && gram.shape(0) == K && gram.shape(1) == K,
          "phi_t, gram: expected the shapes (D, K) and (K, K)");
  require(products.shape(0) == N && products.shape(1) == K && weights.shape(0) == N && weights.shape(1) == K,
          "products, weights: expected the shape (N, K)");
  require(variance.shape(0) == N && variance.shape(1) == D, "variance: expected the shape (N, D)");
  const bpfa::Solvers solvers{
      function_of<std::remove_pointer_t<decltype(bpfa::Solvers::potrf)>>(potrf),
      function_of<std::remove_pointer_t<decltype(bpfa::Solvers::syrk)>>(syrk),
      function_of<std::remove_pointer_t<decltype(bpfa::Solvers::trsm)>>(trsm),
      function_of<std::remove_pointer_t<decltype(bpfa::Solvers::trsv)>>(trsv),
  };
  const bpfa::SignalProblem problem{static_cast<std::int64_t>(N),
                                    static_cast<int>(K),
                                    static_cast<int>(D),
                                    on.data(),
                                    observed.data(),
                                    phi_t.data(),
                                    gram.data(),
                                    products.data(),
                                    g_o,
                                    g_w,
                                    weights.data(),
                                    variance.data()};
  nb::gil_scoped_release release;
  return bpfa::signal(solvers, problem, n_threads);
}

void add_draws(In<double, 3> phi, In<double, 2> logit, In<double, 1> g_o, In<double, 1> g_w, In<double, 2> values,
               In<std::uint8_t, 2> observed, In<std::int64_t, 1> ids, In<std::int64_t, 1> order,
               In<std::int64_t, 1> starts, Out<std::uint8_t, 2> on, Out<double, 2> mean, Out<double, 2> squares,
               Out<double, 2> within, std::uint64_t key, std::uint32_t n_before, int n_sweeps, int n_threads,
               const std::string& instruction_set) {
  const std::size_t V = phi.shape(0), K = phi.shape(1), D = phi.shape(2), N = values.shape(0);
  require(K >= 1 && D >= 1 && K < (1u << 24) && D < (1u << 24), "phi: expected 1 to 2^24 features and columns");
  require(logit.shape(0) == V && logit.shape(1) == K && g_o.shape(0) == V && g_w.shape(0) == V,
          "logit, g_o, g_w: expected as many draws as phi");
  require(values.shape(1) == D && observed.shape(0) == N && observed.shape(1) == D,
          "values, observed: expected the same shape, with as many columns as phi");
  require(ids.shape(0) == N && order.shape(0) == N && on.shape(0) == N && on.shape(1) == K,
          "ids, order, on: expected as many rows as values");
  for (const auto* out : {&mean, &squares, &within})
    require(out->shape(0) == N && out->shape(1) == D, "mean, squares, within: expected the shape of values");
  require(starts.shape(0) >= 1 && starts.data()[0] == 0, "starts: expected 0 first");
  for (std::size_t j = 1; j < starts.shape(0); ++j)
    require(starts.data()[j] > starts.data()[j - 1], "starts: expected ascending numbers");
  require(starts.data()[starts.shape(0) - 1] == static_cast<std::int64_t>(N),
          "starts: expected the number of rows last");
  for (std::size_t i = 0; i < N; ++i)
    require(order.data()[i] >= 0 && order.data()[i] < static_cast<std::int64_t>(N), "order: expected numbers of rows");
  require(n_sweeps >= 1 && n_sweeps < 65536, "n_sweeps: expected 1 to 65535");
  const bpfa::Draws draws{static_cast<int>(V), static_cast<int>(K), static_cast<int>(D), phi.data(),
                          logit.data(),        g_o.data(),          g_w.data()};
  const bpfa::CollapsedRows rows{static_cast<std::int64_t>(N),
                                 values.data(),
                                 observed.data(),
                                 ids.data(),
                                 on.data(),
                                 mean.data(),
                                 squares.data(),
                                 within.data()};
  const bpfa::Patterns patterns{static_cast<std::int64_t>(starts.shape(0)) - 1, order.data(), starts.data()};
  nb::gil_scoped_release release;
  bpfa::add_draws(draws, rows, patterns, {key, n_before, n_sweeps}, n_threads, instruction_set);
}

}  // namespace

NB_MODULE(_kernels, m) {
  using namespace nb::literals;
  m.def("instruction_sets", &bpfa::instruction_sets,
        "Return the instruction sets that this machine can use, widest registers first.");
  m.def("fma_rate", &bpfa::fma_rate, "seconds"_a, "n_threads"_a, "instruction_set"_a,
        nb::call_guard<nb::gil_scoped_release>(), "Measure float32 multiply-adds per second.");
  m.def("copy_rate", &bpfa::copy_rate, "seconds"_a, "n_threads"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Measure bytes read and written per second.");
  m.def("signal", &signal, "potrf"_a, "syrk"_a, "trsm"_a, "trsv"_a, "on"_a.noconvert(), "observed"_a.noconvert(),
        "phi_t"_a.noconvert(), "gram"_a.noconvert(), "products"_a.noconvert(), "g_o"_a, "g_w"_a,
        "weights"_a.noconvert(), "variance"_a.noconvert(), "n_threads"_a,
        "Fill in the means of the weights that are on and the variances of the missing entries. Return the number of "
        "rows whose precision matrix is not positive definite.");
  m.def("add_draws", &add_draws, "phi"_a.noconvert(), "logit"_a.noconvert(), "g_o"_a.noconvert(), "g_w"_a.noconvert(),
        "values"_a.noconvert(), "observed"_a.noconvert(), "ids"_a.noconvert(), "order"_a.noconvert(),
        "starts"_a.noconvert(), "on"_a.noconvert(), "mean"_a.noconvert(), "squares"_a.noconvert(),
        "within"_a.noconvert(), "key"_a, "n_before"_a, "n_sweeps"_a, "n_threads"_a, "instruction_set"_a,
        "Continue the chains of rows under draws of the globals, and add what they predict of the missing entries.");
  nb::class_<SumArrays>(m, "SumArrays", "The arrays that the kernels add their sums to.")
      .def(nb::init<SumArray, SumArray, SumArray, SumArray, SumArray, SumArray, SumArray, SumArray, SumArray>(),
           "n"_a.noconvert(), "zw2"_a.noconvert().none(), "x2"_a.noconvert().none(), "xr"_a.noconvert().none(),
           "xy"_a.noconvert().none(), "xx"_a.noconvert().none(), "total_zw2"_a.noconvert(), "w2"_a.noconvert().none(),
           "rr"_a.noconvert());
  define_pictures<float>(m, "predict_patches_float32", "fold_patches_float32");
  define_pictures<double>(m, "predict_patches_float64", "fold_patches_float64");
  define_run<float>(m, "run_float32");
  define_run<double>(m, "run_float64");
}
