// The dictionary in tiles of sixteen features. Column d of a tile begins at d * TILE_STRIDE, and its features are
// adjacent. The stride is odd, so that the entries of one feature in different columns are in different banks. An
// additional column of zeros stands in for columns that are not observed.
#pragma once

#include "common.cuh"

#define TILE_STRIDE 17

// Where the tiles are while rows go through them: all of them in shared memory, two at a time in shared memory, or in
// global memory.
#define TILES_RESIDENT 0
#define TILES_STREAMED 1
#define TILES_GLOBAL 2
#ifndef TILES
#define TILES TILES_RESIDENT
#endif

// Gives access to the tiles. All threads of a block must ask for the tiles 0, 1, ..., n - 1, 0, 1, ... together.
class Tiles {
 public:
  __device__ Tiles(const real* from, real* shared, int n_tiles, int n_columns)
      : from_(from), shared_(shared), n_tiles_(n_tiles), size_(tile_size(n_columns)) {
#if TILES == TILES_RESIDENT
    for (int i = threadIdx.x; i < n_tiles_ * size_; i += blockDim.x) shared_[i] = from_[i];
    __syncthreads();
#elif TILES == TILES_STREAMED
    fetch(0);
#endif
  }

  // The size of a tile in numbers. It is a multiple of four, so that tiles can be copied sixteen bytes at a time.
  __device__ static int tile_size(int n_columns) { return ((n_columns + 1) * TILE_STRIDE + 3) / 4 * 4; }

  __device__ const real* get(int tile) {
#if TILES == TILES_RESIDENT
    return shared_ + tile * size_;
#elif TILES == TILES_STREAMED
    fetched();
    // Now the tile has arrived for all threads, and none of them still uses the previous one, which the next one
    // replaces.
    __syncthreads();
    const real* here = shared_ + stage_ * size_;
    stage_ ^= 1;
    fetch(tile + 1 < n_tiles_ ? tile + 1 : 0);
    return here;
#else
    return from_ + static_cast<int64>(tile) * size_;
#endif
  }

  // A block must not end while a copy is under way.
  __device__ void finish() {
#if TILES == TILES_STREAMED
    fetched();
#endif
  }

 private:
  // Starts to copy a tile into the current one of the two places in shared memory.
  __device__ void fetch(int tile) {
    const char* source = reinterpret_cast<const char*>(from_ + static_cast<int64>(tile) * size_);
    char* to = reinterpret_cast<char*>(shared_ + stage_ * size_);
    const int n_bytes = size_ * static_cast<int>(sizeof(real));
    for (int i = 16 * threadIdx.x; i < n_bytes; i += 16 * blockDim.x) {
#if __CUDA_ARCH__ >= 800
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + i)), "l"(source + i)
                   : "memory");
#else
      *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(source + i);
#endif
    }
  }
  // Waits for the copies of this thread.
  __device__ static void fetched() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

  const real* from_;
  real* shared_;
  int n_tiles_, size_, stage_ = 0;
};
