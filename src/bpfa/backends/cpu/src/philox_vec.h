// Philox4x32-10 in the lanes of a vector: each lane computes one block. Gives the same words as philox.h.
#pragma once

#include "philox.h"
#include "vec.h"

namespace BPFA_ISA {

using Words = Vec<std::uint32_t>;
constexpr int word_lanes = BPFA_BYTES / 4;

// Philox blocks, one in each lane.
struct Blocks {
  Words word[4];
};

// Multiplies every lane by a constant and returns the high and the low halves of the 64-bit products. x86 multiplies
// only the even 32-bit lanes to 64 bits, so the odd lanes are moved there and multiplied separately.
BPFA_INLINE void multiply(Words x, std::uint32_t factor, Words& high, Words& low) {
#if defined(BPFA_X86)
  using Pairs = Vec<std::uint64_t>;
  const Pairs factors = splat<std::uint64_t>(factor);
#if BPFA_BYTES == 64
  const Pairs even = (Pairs)_mm512_mul_epu32((__m512i)x, (__m512i)factors);
  const Pairs odd = (Pairs)_mm512_mul_epu32((__m512i)((Pairs)x >> 32), (__m512i)factors);
#elif BPFA_BYTES == 32
  const Pairs even = (Pairs)_mm256_mul_epu32((__m256i)x, (__m256i)factors);
  const Pairs odd = (Pairs)_mm256_mul_epu32((__m256i)((Pairs)x >> 32), (__m256i)factors);
#else
  const Pairs even = (Pairs)_mm_mul_epu32((__m128i)x, (__m128i)factors);
  const Pairs odd = (Pairs)_mm_mul_epu32((__m128i)((Pairs)x >> 32), (__m128i)factors);
#endif
  const Pairs upper = splat<std::uint64_t>(0xFFFFFFFF00000000u);
  high = (Words)((even >> 32) | (odd & upper));
  low = x * splat<std::uint32_t>(factor);
#else
  for (int i = 0; i < word_lanes; ++i) {
    const std::uint64_t product = std::uint64_t{x[i]} * factor;
    high[i] = static_cast<std::uint32_t>(product >> 32);
    low[i] = static_cast<std::uint32_t>(product);
  }
#endif
}

BPFA_INLINE Blocks philox4x32(Blocks counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    Words high0, low0, high1, low1;
    multiply(counter.word[0], 0xD2511F53u, high0, low0);
    multiply(counter.word[2], 0xCD9E8D57u, high1, low1);
    counter = {{high1 ^ counter.word[1] ^ key0, low1, high0 ^ counter.word[3] ^ key1, low0}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The random words of all features of a row in one sweep. `words` must have room for a multiple of 64. Word j of
// sixteen consecutive blocks belongs to sixteen consecutive features, so vectors of words are stored as they are.
BPFA_INLINE void row_words(const bpfa::RowKey& key, std::uint32_t kind, std::uint32_t sweep, int n_features,
                           std::uint32_t* words) {
  Words lane;
  for (int i = 0; i < word_lanes; ++i) lane[i] = static_cast<std::uint32_t>(i);
  const Words word1 = splat(key.word1(kind, sweep)), word2 = splat(key.row_low), word3 = splat(key.step);
  for (int group = 0; group * 64 < n_features; ++group) {
    for (int part = 0; part < 16; part += word_lanes) {
      const Words word0 = lane + static_cast<std::uint32_t>(16 * group + part);
      const Blocks blocks = philox4x32(Blocks{{word0, word1, word2, word3}}, key.key0, key.key1);
      for (int j = 0; j < 4; ++j) store(words + 64 * group + 16 * j + part, blocks.word[j]);
    }
  }
}

}  // namespace BPFA_ISA
