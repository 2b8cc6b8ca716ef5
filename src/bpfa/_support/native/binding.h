// What the Python faces of the compiled modules share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace bpfa {

template <class T, int Dimensions>
using In = nanobind::ndarray<const T, nanobind::ndim<Dimensions>, nanobind::c_contig, nanobind::device::cpu>;
template <class T, int Dimensions>
using Out = nanobind::ndarray<T, nanobind::ndim<Dimensions>, nanobind::c_contig, nanobind::device::cpu>;

inline void require(bool condition, const char* message) {
  if (!condition) throw nanobind::value_error(message);
}

// A function of SciPy's, from the capsules that its Cython modules export for such use.
template <class Function>
Function* function_of(nanobind::capsule capsule) {
  return reinterpret_cast<Function*>(capsule.data(capsule.name()));
}

}  // namespace bpfa
