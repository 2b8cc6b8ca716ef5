// Groups of like rows on all threads: finding the patches of a picture that are alike, fitting a factor model to each
// group, and averaging what the groups say (docs/math.md section 19).
#pragma once

#include <cstdint>

#include "members.h"

namespace bpfa::groups {

// The patches that are searched for the neighbours of reference patches.
struct Search {
  Picture picture;
  int n_slices;
  const float* values;             // slices x height x width x channels
  const std::int32_t *slices, *y;  // one for each row of references
  int n_reference_rows;
  const std::int32_t* x;  // where the references of a row begin
  int n_x;
  int reach, slice_reach;  // neighbours begin at most this many pixels and slices away
  float distance_weight;   // added to the mean squared difference, times the squared distance in pixels
  int n_members;
};

// Fills in where the members of every group begin in the flattened picture, the reference first, then by increasing
// difference; groups x n_members. If there are fewer members, the rest is -1.
void find_members(const Search& search, std::int64_t* first, int n_threads);

// Sums over all members that contain an entry, by its place in the flat arrays. Values are relative to `current`.
struct Average {
  float *weight, *shift, *square, *variance;
};

// Fits all groups and adds what they say of their members to the average. Groups belong to blocks, each of which is
// worked on by one thread; their sums are added in the order of the blocks. first is n_groups x n_members, `blocks` has
// n_blocks + 1 numbers, `ranks` one for each group. squares and freedom have D numbers.
void fit_groups(const Round& round, const std::int64_t* first, const std::int64_t* blocks, int n_blocks,
                const Average& average, std::int32_t* ranks, double* squares, double* freedom, int n_threads);

// Fits all groups and stores what they say of their first n_kept members: n_groups x n_kept x D.
void fit_members(const Round& round, const std::int64_t* first, std::int64_t n_groups, int n_kept, float* mean,
                 float* variance, std::int32_t* ranks, double* squares, double* freedom, int n_threads);

}  // namespace bpfa::groups
