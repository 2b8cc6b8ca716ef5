// The Python face of the CPU kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <type_traits>

#include "driver.h"
#include "gaussian.h"
#include "philox.h"
#include "signal.h"

namespace nb = nanobind;

namespace {

template <class T, int Dimensions>
using In = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
template <class T, int Dimensions>
using Out = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
using OutAny = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

void philox4x32(Out<std::uint32_t, 2> counters, std::uint64_t key) {
  if (counters.shape(1) != 4) throw nb::value_error("counters: expected four words in each row");
  std::uint32_t* words = counters.data();
  const std::size_t n = counters.shape(0);
  nb::gil_scoped_release release;
  for (std::size_t i = 0; i < n; ++i, words += 4) {
    const bpfa::Block block = bpfa::philox4x32({{words[0], words[1], words[2], words[3]}},
                                               static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
    for (int j = 0; j < 4; ++j) words[j] = block.word[j];
  }
}

void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

template <class Array>
auto data_or_null(const std::optional<Array>& array) {
  return array ? array->data() : nullptr;
}

struct SumArrays {
  std::optional<OutAny> n, zw2, x2, xr, xy, xx, total_zw2, w2, rr;
};

// Lets Ctrl-C and other signals through while rows are worked on without the GIL; the error stays pending.
bool no_signal() {
  nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() == 0;
}

template <class Real>
void run(int method, In<double, 2> phi, In<double, 2> v, In<double, 1> logit, double g_o, double g_w,
         In<Real, 2> values, std::optional<In<std::uint8_t, 2>> observed, In<std::int64_t, 1> ids,
         std::optional<In<Real, 2>> start_z, std::optional<In<Real, 2>> start_w, std::uint64_t key, std::uint32_t step,
         int first_sweep, int burn_in, int n_samples, int n_sweeps, std::uint32_t hide,
         std::optional<SumArrays> sum_arrays, std::optional<Out<Real, 3>> posterior, std::optional<Out<Real, 3>> state,
         int n_threads, const std::string& instruction_set) {
  const std::size_t K = phi.shape(0), D = phi.shape(1), N = values.shape(0);
  require(K >= 1 && D >= 1 && K < (1u << 24) && D < (1u << 24), "phi: expected 1 to 2^24 features and columns");
  require(v.shape(0) == K && v.shape(1) == D, "v: expected the shape of phi");
  require(logit.shape(0) == K, "logit: expected one number a feature");
  require(values.shape(1) == D, "values: expected as many columns as phi has");
  require(!observed || (observed->shape(0) == N && observed->shape(1) == D), "observed: expected the shape of values");
  require(ids.shape(0) == N, "ids: expected one number a row");
  require(start_z.has_value() == start_w.has_value(), "start: expected both of z and w, or none");
  for (const auto* start : {&start_z, &start_w})
    require(!*start || ((*start)->shape(0) == N && (*start)->shape(1) == K), "start: expected rows x features");
  require(method >= 0 && method <= 3, "method: expected 0 to 3");
  const bool gibbs = method <= 1;
  require(gibbs || hide == 0, "hide: expected Gibbs sampling");
  require(first_sweep >= 1 && burn_in >= 0 && n_samples >= 1 && (gibbs || n_sweeps >= 1),
          "first_sweep, burn_in, n_samples, n_sweeps: expected counts of at least one, burn_in of at least zero");
  require(std::int64_t{first_sweep} + burn_in + n_samples <= 65536, "first_sweep + burn_in + n_samples: at most 65536");
  for (const auto* out : {&posterior, &state}) {
    const std::size_t planes = out == &posterior ? 3 : 2;
    require(!*out || ((*out)->shape(0) == planes && (*out)->shape(1) == N && (*out)->shape(2) == K),
            "posterior, state: expected planes x rows x features");
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
  const bpfa::View view{static_cast<int>(K), static_cast<int>(D), phi.data(), v.data(), logit.data(), g_o, g_w};
  const bpfa::Settings settings{
      static_cast<bpfa::Method>(method), key, step, first_sweep, burn_in, n_samples, n_sweeps, hide};
  const bpfa::Rows<Real> rows{static_cast<std::int64_t>(N), values.data(),        data_or_null(observed), ids.data(),
                              data_or_null(start_z),        data_or_null(start_w)};
  bpfa::Sums sums{};
  if (sum_arrays) {
    const std::size_t DP = bpfa::padded(static_cast<int>(D), bpfa::kColumnPadding);
    const auto take = [](const std::optional<OutAny>& array, std::size_t size) -> double* {
      if (!array) return nullptr;
      require(array->size() == size, "sums: an array of the wrong size");
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
            "sums: an array is missing");
    require(!sums.xr != !sums.xy && !sums.xx == !sums.xy, "sums: expected xr alone, or xy and xx");
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
        "n_sweeps"_a, "hide"_a, "sums"_a.none(), "posterior"_a.noconvert().none(), "state"_a.noconvert().none(),
        "n_threads"_a, "instruction_set"_a, "Run a local method over rows, adding to the arrays of `sums`.");
}

// A function of SciPy's, from the capsules that its Cython modules export for such use.
template <class Function>
Function* function_of(nb::capsule capsule) {
  return reinterpret_cast<Function*>(capsule.data(capsule.name()));
}

int gaussian_draws(nb::capsule potrf, nb::capsule trsv, In<double, 3> P, In<double, 2> h, In<double, 2> noise,
                   Out<double, 2> out, int n_threads) {
  const std::size_t D = h.shape(0), K = h.shape(1);
  require(P.shape(1) == K && P.shape(2) == K && (P.shape(0) == D || P.shape(0) == 1), "P: expected D or 1 x K x K");
  require(noise.shape(0) == D && noise.shape(1) == K && out.shape(0) == D && out.shape(1) == K,
          "noise, out: expected D x K, as h has");
  auto* const potrf_function = function_of<bpfa::Potrf>(potrf);
  auto* const trsv_function = function_of<bpfa::Trsv>(trsv);
  nb::gil_scoped_release release;
  return bpfa::gaussian_draws(potrf_function, trsv_function, static_cast<int>(D), static_cast<int>(K),
                              static_cast<int>(P.shape(0)), P.data(), h.data(), noise.data(), out.data(), n_threads);
}

void move_precisions(In<double, 3> P, In<double, 3> XX, double keep, double gain, double diagonal, Out<double, 3> out,
                     int n_threads) {
  const std::size_t n = out.shape(0), K = out.shape(1);
  require(n >= 1 && out.shape(2) == K, "out: expected D or 1 x K x K");
  for (const auto* matrices : {&P, &XX})
    require((matrices->shape(0) == n || matrices->shape(0) == 1) && matrices->shape(1) == K && matrices->shape(2) == K,
            "P, XX: expected the shape of out, or one matrix");
  require(P.shape(0) == n || XX.shape(0) == n, "out: expected as many matrices as P or XX has");
  nb::gil_scoped_release release;
  bpfa::move_precisions(static_cast<int>(K), static_cast<int>(P.shape(0)), P.data(), static_cast<int>(XX.shape(0)),
                        XX.data(), keep, gain, diagonal, out.data(), n_threads);
}

std::int64_t signal(nb::capsule potrf, nb::capsule syrk, nb::capsule trsm, nb::capsule trsv, In<std::uint8_t, 2> on,
                    In<std::uint8_t, 2> observed, In<double, 2> phi_t, In<double, 2> gram, In<double, 2> products,
                    double g_o, double g_w, Out<double, 2> weights, Out<double, 2> variance, int n_threads) {
  const std::size_t N = on.shape(0), K = on.shape(1), D = observed.shape(1);
  require(observed.shape(0) == N, "observed: expected as many rows as on has");
  require(phi_t.shape(0) == D && phi_t.shape(1) == K && gram.shape(0) == K && gram.shape(1) == K,
          "phi_t, gram: expected D x K and K x K");
  require(products.shape(0) == N && products.shape(1) == K && weights.shape(0) == N && weights.shape(1) == K,
          "products, weights: expected N x K");
  require(variance.shape(0) == N && variance.shape(1) == D, "variance: expected N x D");
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

}  // namespace

NB_MODULE(_cpu, m) {
  using namespace nb::literals;
  // A step allocates and frees the same megabyte or so again and again. glibc would hand it back to the system
  // each time, and the page faults would cost more than the arithmetic of a small batch; once it has seen a
  // large block freed, it keeps blocks of up to that size. Elsewhere this does nothing.
  // Volatile, or the compiler would see through it.
  void* volatile block = std::malloc((std::size_t{32} << 20) - 65536);
  std::free(block);
  m.def("philox4x32", &philox4x32, "counters"_a.noconvert(), "key"_a,
        "Replace each row of four counter words by its Philox4x32-10 block, in place.");
  m.def("instruction_sets", &bpfa::instruction_sets, "Instruction sets usable on this machine, widest first.");
  m.def("thread_count", &bpfa::thread_count, "asked"_a, "Threads that a run would use.");
  m.def("fma_rate", &bpfa::fma_rate, "seconds"_a, "n_threads"_a, "instruction_set"_a,
        nb::call_guard<nb::gil_scoped_release>(), "Measured float32 multiply-adds a second.");
  m.def("copy_rate", &bpfa::copy_rate, "seconds"_a, "n_threads"_a, nb::call_guard<nb::gil_scoped_release>(),
        "Measured bytes read and written a second.");
  m.def("gaussian_draws", &gaussian_draws, "potrf"_a, "trsv"_a, "P"_a.noconvert(), "h"_a.noconvert(),
        "noise"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "Fill `out` with draws from N(P_d^-1 h_d, P_d^-1); returns the first column whose P fails, or -1.");
  m.def("move_precisions", &move_precisions, "P"_a.noconvert(), "XX"_a.noconvert(), "keep"_a, "gain"_a, "diagonal"_a,
        "out"_a.noconvert(), "n_threads"_a, "Fill `out` with keep P_d + gain XX_d + diagonal I.");
  m.def("signal", &signal, "potrf"_a, "syrk"_a, "trsm"_a, "trsv"_a, "on"_a.noconvert(), "observed"_a.noconvert(),
        "phi_t"_a.noconvert(), "gram"_a.noconvert(), "products"_a.noconvert(), "g_o"_a, "g_w"_a,
        "weights"_a.noconvert(), "variance"_a.noconvert(), "n_threads"_a,
        "Fill in the mean of the weights that are on, and the variance of the missing entries; returns failures.");
  nb::class_<SumArrays>(m, "SumArrays", "The arrays that sums are added to.")
      .def(nb::init<>())
      .def_rw("n", &SumArrays::n, nb::for_setter(nb::arg("array").noconvert().none()))
      .def_rw("zw2", &SumArrays::zw2, nb::for_setter(nb::arg("array").noconvert().none()))
      .def_rw("x2", &SumArrays::x2, nb::for_setter(nb::arg("array").noconvert().none()))
      .def_rw("xr", &SumArrays::xr, nb::for_setter(nb::arg("array").noconvert().none()))
      .def_rw("xy", &SumArrays::xy, nb::for_setter(nb::arg("array").noconvert().none()))
      .def_rw("xx", &SumArrays::xx, nb::for_setter(nb::arg("array").noconvert().none()))
      .def_rw("total_zw2", &SumArrays::total_zw2, nb::for_setter(nb::arg("array").noconvert().none()))
      .def_rw("w2", &SumArrays::w2, nb::for_setter(nb::arg("array").noconvert().none()))
      .def_rw("rr", &SumArrays::rr, nb::for_setter(nb::arg("array").noconvert().none()));
  define_run<float>(m, "run_float32");
  define_run<double>(m, "run_float64");
}
