// The Python face of the CPU kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

#include "philox.h"

namespace nb = nanobind;

namespace {

using Words = nb::ndarray<std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void philox4x32(Words counters, std::uint64_t key) {
  if (counters.shape(1) != 4) throw nb::value_error("counters: expected four words in each row");
  std::uint32_t* words = counters.data();
  const std::size_t n = counters.shape(0);
  nb::gil_scoped_release release;
  for (std::size_t i = 0; i < n; ++i, words += 4) {
    const bpfa::Block block =
        bpfa::philox4x32({{words[0], words[1], words[2], words[3]}}, static_cast<std::uint32_t>(key),
                         static_cast<std::uint32_t>(key >> 32));
    for (int j = 0; j < 4; ++j) words[j] = block.word[j];
  }
}

}  // namespace

NB_MODULE(_cpu, m) {
  m.def("philox4x32", &philox4x32, nb::arg("counters").noconvert(), nb::arg("key"),
        "Replace each row of four counter words by its Philox4x32-10 block, in place.");
}
