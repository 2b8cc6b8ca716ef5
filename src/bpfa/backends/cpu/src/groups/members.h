// What the kernels know of groups of like rows (docs/math.md section 19). Rows are windows into flat arrays: entry d of
// a member is at first + offsets[d], so that rows of a table and overlapping patches of a picture are the same thing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bpfa::groups {

// Everything that all groups of a round have in common.
struct Round {
  int D, DP;                     // columns, and columns with padding
  int n_members;                 // the largest number of members of a group
  const float* current;          // the table as it is completed now
  const float* seen;             // the observed entries; anything elsewhere
  const std::uint8_t* observed;  // 1 where an entry is observed
  const std::int64_t* offsets;   // D
  const float* noise;            // variance of the noise, by column
  const double* log_prior;       // log probability of having q features, q = 0..D; null for full rank
  const float* prior;            // covariance that a group's own is shrunk towards, D x D, or null
  float prior_rows;              // how many rows that is worth
  float floor;                   // eps_0, the least variance of what the features do not explain
  float weight_share;            // share of the noise in the weights of members
  int n_iterations;              // EM iterations
};

// What a group says of its members, n_members x DP each, and of itself.
struct GroupResult {
  float* mean;
  float* variance;  // of the mean's error, including that of the group's parameters
  float* weight;
  double* squares;  // D: squared residuals of the observed entries, added up
  double* freedom;  // D: their expectation in units of the noise, added up
  int rank;
};

struct Picture {
  int height, width, channels;
  int patch_height, patch_width;
};

struct GroupKernels {
  const char* name;
  std::size_t (*scratch_bytes)(int D, int n_members);
  void (*fit)(const Round& round, const std::int64_t* first, int n_members, GroupResult& result, void* scratch);
  // Squared differences between the patches of one row of references and the patches that lie (dy, dx) from them.
  void (*differences)(const Picture& picture, const float* here, const float* there, int dx, int n_references,
                      const std::int32_t* x, float* result, std::size_t result_step, float* scratch);
};

}  // namespace bpfa::groups
