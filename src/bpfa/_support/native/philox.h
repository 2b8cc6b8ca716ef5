// The random number generator Philox4x32-10 (Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011), and how the draws of a row are keyed. Gives the same numbers as src/bpfa/_support/philox.py, bit for
// bit.
#pragma once

#include <cstdint>

namespace bpfa {

// The four words of a counter, or the four random words that it gives.
struct Block {
  std::uint32_t word[4];
};

// Ten rounds of Philox, which turn a counter into a block of random words.
__attribute__((always_inline)) inline Block philox4x32(Block counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// Kinds of draw, which keep the random words of different uses apart; the values are those in
// src/bpfa/_support/philox.py.
enum Kind : std::uint32_t { kUniform = 0, kNormal = 1 };

// Identifies the random numbers of one row at one step: the key of the generator and the counter words that are the
// same for all of the row's draws. The layout of the counter is explained in src/bpfa/_support/philox.py.
struct RowKey {
  std::uint32_t key0, key1, row_low, row_high, step;

  __attribute__((always_inline)) RowKey(std::uint64_t key, std::uint64_t row, std::uint32_t step)
      : key0(static_cast<std::uint32_t>(key)),
        key1(static_cast<std::uint32_t>(key >> 32)),
        row_low(static_cast<std::uint32_t>(row)),
        row_high(static_cast<std::uint32_t>(row >> 32)),
        step(step) {}

  // The second counter word: the high bits of the row id, the kind of draw, and the sweep.
  __attribute__((always_inline)) std::uint32_t word1(std::uint32_t kind, std::uint32_t sweep) const {
    return row_high << 24 | kind << 16 | sweep;
  }

  // The random word of a single feature.
  __attribute__((always_inline)) std::uint32_t word(std::uint32_t kind, std::uint32_t sweep,
                                                    std::uint32_t feature) const {
    const std::uint32_t block = 16 * (feature / 64) + feature % 16;
    return philox4x32({{block, word1(kind, sweep), row_low, step}}, key0, key1).word[feature % 64 / 16];
  }
};

}  // namespace bpfa
