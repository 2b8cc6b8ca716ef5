// Python bindings of the numerical routines that every layer may use: random words, Gaussian draws, thread counts.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "binding.h"
#include "gaussian.h"
#include "globals.h"
#include "philox.h"
#include "threads.h"

namespace nb = nanobind;

namespace {

using bpfa::function_of;
using bpfa::In;
using bpfa::Out;
using bpfa::require;

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

void uniform_draws(std::uint64_t key, std::uint32_t call, std::uint32_t step, Out<double, 1> out) {
  nb::gil_scoped_release release;
  bpfa::uniform_draws({key, call, step}, static_cast<std::int64_t>(out.shape(0)), out.data());
}

void normal_draws(nb::capsule ndtri, std::uint64_t key, std::uint32_t call, std::uint32_t step, Out<double, 1> out) {
  bpfa::normal_draws(function_of<bpfa::Ndtri>(ndtri), {key, call, step}, static_cast<std::int64_t>(out.shape(0)),
                     out.data());
}

double gamma_number(nb::capsule ndtri, std::uint64_t key, std::uint32_t call, std::uint32_t step, double shape) {
  return bpfa::gamma_number(function_of<bpfa::Ndtri>(ndtri), {key, call, step}, shape);
}

void log_gamma_parts(nb::capsule ndtri, std::uint64_t key, std::uint32_t call, std::uint32_t step, In<double, 2> shape,
                     Out<double, 3> out) {
  const std::size_t n_rows = shape.shape(0), n = shape.shape(1);
  require(out.shape(0) == 2 && out.shape(1) == n_rows && out.shape(2) == n, "out: expected two arrays like shape");
  bpfa::log_gamma_parts(function_of<bpfa::Ndtri>(ndtri), {key, call, step}, static_cast<std::int64_t>(n_rows),
                        static_cast<std::int64_t>(n), shape.data(), out.data(), out.data() + n_rows * n);
}

void gamma_draws(nb::capsule ndtri, std::uint64_t key, std::uint32_t call, std::uint32_t step, In<double, 1> shape,
                 Out<double, 1> out) {
  require(shape.shape(0) == out.shape(0), "out: expected the shape of shape");
  auto* const ndtri_function = function_of<bpfa::Ndtri>(ndtri);
  nb::gil_scoped_release release;
  bpfa::gamma_draws(ndtri_function, {key, call, step}, static_cast<std::int64_t>(out.shape(0)), shape.data(),
                    out.data());
}

int gaussian_draws(nb::capsule potrf, nb::capsule trsv, In<double, 3> P, In<double, 2> h, In<double, 2> noise,
                   Out<double, 2> out, int n_threads) {
  const std::size_t K = h.shape(0), D = h.shape(1);
  require(P.shape(1) == K && P.shape(2) == K && (P.shape(0) == D || P.shape(0) == 1),
          "P: expected the shape (D, K, K) or (1, K, K)");
  require(noise.shape(0) == K && noise.shape(1) == D && out.shape(0) == K && out.shape(1) == D,
          "noise, out: expected the shape of h, (K, D)");
  auto* const potrf_function = function_of<bpfa::Potrf>(potrf);
  auto* const trsv_function = function_of<bpfa::Trsv>(trsv);
  nb::gil_scoped_release release;
  return bpfa::gaussian_draws(potrf_function, trsv_function, static_cast<int>(D), static_cast<int>(K),
                              static_cast<int>(P.shape(0)), P.data(), h.data(), noise.data(), out.data(), n_threads);
}

bool move_precisions(In<double, 3> P, In<double, 3> XX, double keep, double gain, double diagonal, Out<double, 3> out,
                     int n_threads) {
  const std::size_t n = out.shape(0), K = out.shape(1);
  require(n >= 1 && out.shape(2) == K, "out: expected the shape (D, K, K) or (1, K, K)");
  for (const auto* matrices : {&P, &XX})
    require((matrices->shape(0) == n || matrices->shape(0) == 1) && matrices->shape(1) == K && matrices->shape(2) == K,
            "P, XX: expected the shape of out, or (1, K, K)");
  require(P.shape(0) == n || XX.shape(0) == n, "out: expected as many matrices as the larger of P and XX");
  nb::gil_scoped_release release;
  return bpfa::move_precisions(static_cast<int>(K), static_cast<int>(P.shape(0)), P.data(),
                               static_cast<int>(XX.shape(0)), XX.data(), keep, gain, diagonal, out.data(), n_threads);
}

bool move_numbers(In<double, 2> from, In<double, 2> add, double keep, double gain, Out<double, 2> out) {
  for (const auto* array : {&from, &add})
    require(array->shape(0) == out.shape(0) && array->shape(1) == out.shape(1), "from, add: expected the shape of out");
  return bpfa::move_numbers(out.size(), from.data(), add.data(), keep, gain, out.data());
}

// Has no effect with C libraries other than that of GNU.
void set_allocator(int mapped_from, int trimmed_from) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, mapped_from);
  mallopt(M_TRIM_THRESHOLD, trimmed_from);
  malloc_trim(0);
#else
  static_cast<void>(mapped_from);
  static_cast<void>(trimmed_from);
#endif
}

}  // namespace

NB_MODULE(_native, m) {
  using namespace nb::literals;
  // Every step allocates and frees the same memory, a megabyte or so. glibc would return it to the system each time,
  // and the page faults would cost more than the arithmetic of a small batch. Once a large block has been freed,
  // however, glibc keeps freed blocks of up to that size for reuse, so one is allocated and freed here. With other C
  // libraries this has no effect. The pointer is volatile because the compiler would otherwise remove the unused
  // allocation.
  void* volatile block = std::malloc((std::size_t{32} << 20) - 65536);
  std::free(block);
  m.def("philox4x32", &philox4x32, "counters"_a.noconvert(), "key"_a,
        "Replace each row of four counter words with its Philox4x32-10 block, in place.");
  m.def("uniform_draws", &uniform_draws, "key"_a, "call"_a, "step"_a, "out"_a.noconvert(),
        "Fill `out` with the uniform numbers of one call at one step.");
  m.def("normal_draws", &normal_draws, "ndtri"_a, "key"_a, "call"_a, "step"_a, "out"_a.noconvert(),
        "Fill `out` with the standard normal numbers of one call at one step.");
  m.def("gamma_number", &gamma_number, "ndtri"_a, "key"_a, "call"_a, "step"_a, "shape"_a,
        "Return the gamma number of one call at one step, of scale 1.");
  m.def("log_gamma_parts", &log_gamma_parts, "ndtri"_a, "key"_a, "call"_a, "step"_a, "shape"_a.noconvert(),
        "out"_a.noconvert(),
        "Fill `out` with gamma numbers of shape + 1 and with uniform numbers; each row takes those of two calls.");
  m.def("gamma_draws", &gamma_draws, "ndtri"_a, "key"_a, "call"_a, "step"_a, "shape"_a.noconvert(), "out"_a.noconvert(),
        "Fill `out` with the gamma numbers of one call at one step, of scale 1.");
  m.def("thread_count", &bpfa::thread_count, "asked"_a,
        "Return the number of threads that a parallel loop uses if `asked` are requested; 0 requests the default.");
  m.def("gaussian_draws", &gaussian_draws, "potrf"_a, "trsv"_a, "P"_a.noconvert(), "h"_a.noconvert(),
        "noise"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "Fill `out` with P_d^-1 h_d + L_d^-T noise_d, where P_d = L_d L_d^T. Return the first column whose P is not "
        "positive definite, or -1.");
  m.def("move_precisions", &move_precisions, "P"_a.noconvert(), "XX"_a.noconvert(), "keep"_a, "gain"_a, "diagonal"_a,
        "out"_a.noconvert(), "n_threads"_a,
        "Fill `out` with keep P_d + gain XX_d + diagonal I. Return whether all of it is finite.");
  m.def("move_numbers", &move_numbers, "from_"_a.noconvert(), "add"_a.noconvert(), "keep"_a, "gain"_a,
        "out"_a.noconvert(), "Fill `out` with keep from + gain add. Return whether all of it is finite.");
  m.def("set_allocator", &set_allocator, "mapped_from"_a, "trimmed_from"_a,
        "Give blocks from the first size on a mapping of their own, and return freed memory from the second on.");
}
