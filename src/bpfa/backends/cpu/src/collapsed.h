// Predictions of missing entries by Gibbs sampling of z, with the weights integrated out of the chain (docs/math.md
// section 13). The function `bpfa.model.collapsed.add_draws` is the specification.
#pragma once

#include <cstdint>
#include <string>

namespace bpfa {

// Draws of the globals, as row-major arrays without padding.
struct Draws {
  int n, K, D;
  const double* phi;    // n x K x D
  const double* logit;  // n x K
  const double* g_o;    // n
  const double* g_w;    // n
};

// The rows, their chains, and what has been found out about their missing entries.
struct CollapsedRows {
  std::int64_t n;
  const double* values;             // n x D, zero where missing
  const std::uint8_t* observed;     // n x D
  const std::int64_t* ids;          // n
  std::uint8_t* on;                 // n x K: the last state of the chains, replaced by the new one
  double *mean, *squares, *within;  // n x D, as in bpfa.model.collapsed.MissingEntries
};

// The rows in an order in which those with the same missing entries follow one another.
struct Patterns {
  std::int64_t n;              // the number of patterns
  const std::int64_t* order;   // the rows
  const std::int64_t* starts;  // n + 1: where the rows of each pattern begin in `order`, and the end
};

// The chains: the key of their random numbers, the number of earlier draws, and the sweeps for each draw.
struct Sampling {
  std::uint64_t key;
  std::uint32_t n_before;
  int n_sweeps;
};

// Continues the chains of the rows under every draw of the globals, and adds what they predict.
void add_draws(const Draws& draws, const CollapsedRows& rows, const Patterns& patterns, const Sampling& sampling,
               int n_threads, const std::string& instruction_set);

// What the kernel for one instruction set reads of the draws: arrays whose rows are padded to KP numbers and aligned.
struct PreparedDraws {
  int n, K, D, KP;
  const double* phi_t;  // n x D x KP
  const double* gram;   // n x K x KP: phi phi^T
  const double* logit;  // n x KP; beyond K so small that a feature is never on
  const double* g_o;
  const double* g_w;
};

// Continues the chains of n rows that have the same entries missing.
using CollapsedKernel = void(const PreparedDraws&, const CollapsedRows&, const Sampling&, const std::int64_t* some,
                             int n, void* scratch);

}  // namespace bpfa
