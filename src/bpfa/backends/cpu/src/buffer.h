// A buffer that owns memory aligned for the kernels.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "problem.h"

namespace bpfa {

// What a new buffer contains.
enum class Content { kZeros, kAnything };

// Owns an array of n elements that begins at a multiple of kAlignment bytes.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t n = 0, Content content = Content::kZeros) {
    if (n == 0) return;
    const std::size_t bytes = (n * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    // Pages of a large block that are never used cost nothing, unless calloc has to set memory to zero that was used
    // before. Blocks are aligned less than is needed here, which is why kAlignment more bytes are allocated.
    memory_.reset(content == Content::kZeros ? std::calloc(bytes + kAlignment, 1) : std::malloc(bytes + kAlignment));
    if (!memory_) throw std::bad_alloc();
    void* start = memory_.get();
    std::size_t space = bytes + kAlignment;
    data_ = static_cast<T*>(std::align(kAlignment, bytes, start, space));
  }
  T* get() const { return data_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  T* data_ = nullptr;
};

}  // namespace bpfa
