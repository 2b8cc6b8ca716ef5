// Array types and helpers that the Python bindings of both compiled modules share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace bpfa {

// C-contiguous arrays in host memory: In is only read, Out is written.
template <class T, int Dimensions>
using In = nanobind::ndarray<const T, nanobind::ndim<Dimensions>, nanobind::c_contig, nanobind::device::cpu>;
template <class T, int Dimensions>
using Out = nanobind::ndarray<T, nanobind::ndim<Dimensions>, nanobind::c_contig, nanobind::device::cpu>;

// Raises Python's ValueError unless the condition holds.
inline void require(bool condition, const char* message) {
  if (!condition) throw nanobind::value_error(message);
}

// Returns the C function that a capsule holds. SciPy's Cython modules export their BLAS and LAPACK functions as
// capsules, so that other compiled code can call them.
template <class Function>
Function* function_of(nanobind::capsule capsule) {
  return reinterpret_cast<Function*>(capsule.data(capsule.name()));
}

}  // namespace bpfa
