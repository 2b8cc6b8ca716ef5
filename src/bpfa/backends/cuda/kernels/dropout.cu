// Dropout: entries that the chains do not see. Before the chains run, the rows are copied without these entries. After
// they have run, the residuals of the whole rows are computed from the kept samples. One warp processes one row.
#include "common.cuh"

// Loops over the rows, one warp for each.
#define FOR_ROWS(row, n_rows)                                                                                  \
  for (int64 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, n_warps = gridDim.x * (blockDim.x / 32); \
       row < n_rows; row += n_warps)

// Copies the rows into dense matrices. An entry is zero and not visible if it is missing or if its random word is below
// `dropout`.
extern "C" __global__ void drop_entries(const real* values, const unsigned char* observed, const int64* ids,
                                        const int64* bases, const int* offsets, int64 n_rows, int D, unsigned dropout,
                                        unsigned key0, unsigned key1, unsigned step_number, const StepOnDevice* stored,
                                        real* visible_values, unsigned char* visible) {
  FOR_ROWS(row, n_rows) {
    const int64 base = bases ? bases[ids[row]] : row * D;
    for (int d = threadIdx.x % 32; d < D; d += 32) {
      // Sweeps are counted from 1, so the words of sweep 0 are free to decide which columns are dropped.
      const uint4 words = row_words(UNIFORM, 0, ids[row], step_of(stored, step_number), d / 64, d % 16, key0, key1);
      const int64 at = base + offsets[d];
      const bool is_visible = (observed == nullptr || observed[at]) && word_of(words, d % 64 / 16) >= dropout;
      visible_values[row * D + d] = is_visible ? values[at] : 0;
      visible[row * D + d] = is_visible;
    }
  }
}

// Computes the residuals of the kept samples over all observed entries, their sum of squares for each row, and which
// and how many entries are observed.
extern "C" __global__ void residuals_of_whole_rows(const real* values, const unsigned char* observed, const int64* ids,
                                                   const int64* bases, const int* offsets, int64 n_rows, int n_samples,
                                                   int K, int D, const real* phi, const int* counts,
                                                   const Entry* entries, real* residuals, unsigned short* masks,
                                                   double* squares, int* n_observed) {
  const int lane = threadIdx.x % 32, n_words = (D + 15) / 16;
  FOR_ROWS(row, n_rows) {
    const int64 base = bases ? bases[ids[row]] : row * D;
    double own_squares = 0;
    int own_observed = 0;
    for (int first = 0; first < D; first += 32) {
      const int d = first + lane;
      const int64 at = d < D ? base + offsets[d] : 0;
      const bool o = d < D && (observed == nullptr || observed[at]);
      const unsigned word = __ballot_sync(EVERY_LANE, o);
      own_observed += __popc(word);
      if (masks && lane < 2 && first / 16 + lane < n_words)
        masks[row * n_words + first / 16 + lane] = static_cast<unsigned short>(word >> 16 * lane);
      if (d >= D) continue;
      for (int sample = 0; sample < n_samples; ++sample) {
        const int64 kept = sample * n_rows + row;
        real r = o ? values[at] : 0;
        for (int j = 0; o && j < counts[kept]; ++j) {
          const Entry entry = entries[kept * K + j];
          r -= entry.weight * phi[static_cast<int64>(entry.feature) * D + d];
        }
        residuals[kept * D + d] = r;
        own_squares += static_cast<double>(r) * r;
      }
    }
    own_squares = lane_sum<32>(own_squares);
    if (lane == 0) {
      squares[row] = own_squares;
      if (n_observed) n_observed[row] = own_observed;
    }
  }
}
