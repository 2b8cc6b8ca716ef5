// Gibbs sampling of one row (docs/math.md section 4). Lanes are features: a register of features is judged at
// once, and judged again only after one of them has changed.
#pragma once

#include "philox_vec.h"
#include "rows.h"

namespace BPFA_ISA {

using bpfa::Chunk;
using bpfa::RowKey;
using bpfa::RowOutput;
using bpfa::Settings;

// A number that is as good as zero, and yet not flushed to it.
template <class Real>
constexpr Real smallest = sizeof(Real) == 4 ? Real(1e-37) : Real(1e-300);

template <class Real>
struct GibbsScratch {
  Real* x;                 // KP
  Real* w;                 // KP, two-step only
  Real* normal;            // KP
  std::uint32_t* uniform;  // KP
  std::uint32_t* words;    // KP
  std::int32_t* active;    // KP: the features that are on, ascending
  Real* square;            // KP: sum of x^2 over the kept samples; zero between rows
  std::int32_t* ever;      // KP: the features that were on in any kept sample
  // Where entries are hidden from chains:
  std::uint32_t* dropout_words;  // D, and up to whole groups of words
  std::uint8_t* seen;           // DP
  Real* y;                      // DP: the row, zero where it is not seen
};

// Standard normal numbers of the features that are on, sixteen at a time.
template <class Real>
BPFA_INLINE void normals_of_active(const RowKey& key, int sweep, int n_active, const GibbsScratch<Real>& t) {
  for (int first = 0; first < n_active; first += word_lanes) {
    const int n = n_active - first < word_lanes ? n_active - first : word_lanes;
    // Lanes beyond the list give numbers that nobody reads.
    const Words k = bitcast<Words>(load(t.active + first));
    const Words block = 16 * (k / 64) + k % 16, which = k % 64 / 16;
    const Blocks blocks =
        philox4x32(Blocks{{block, splat(key.word1(bpfa::kNormal, sweep)), splat(key.row_low), splat(key.step)}},
                   key.key0, key.key1);
    Words word = which == 0 ? blocks.word[0] : blocks.word[1];
    word = which == 2 ? blocks.word[2] : word;
    word = which == 3 ? blocks.word[3] : word;
    store(t.words, word);
    alignas(64) Real normal[word_lanes];
    for (int i = 0; i < word_lanes; i += lanes<Real>) store(normal + i, normal_of_words<Real>(t.words + i));
    for (int i = 0; i < n; ++i) t.normal[t.active[first + i]] = normal[i];
  }
}

template <class Real, class Row, bool TwoStep>
BPFA_INLINE int gibbs_sweep(const Globals<Real>& globals, const RowKey& key, int sweep, const Row& shared_row,
                            int n_active, const GibbsScratch<Real>& scratch) {
  constexpr int W = lanes<Real>;
  // Copies that nobody else points to: stores of vectors may alias anything, and would have the compiler read
  // every pointer again after each of them.
  const Globals<Real> g = globals;
  const GibbsScratch<Real> t = scratch;
  Row row = shared_row;
  const Constants<Real> constants = row.constants;
  row_words(key, bpfa::kUniform, sweep, g.K, t.uniform);
  const Real idle_sd = 1 / Real(__builtin_sqrt(g.g_w));
  if constexpr (TwoStep) {
    row_words(key, bpfa::kNormal, sweep, g.K, t.words);
    for (int b = 0; b < rounded<Real>(g.K); b += W) store(t.normal + b, normal_of_words<Real>(t.words + b));
  } else {
    normals_of_active(key, sweep, n_active, t);
  }
  int n_next = 0;
  for (int b = 0; b < rounded<Real>(g.K); b += W) {
    const Vec<Real> x = load(t.x + b);
    Vec<Real> correlation = row.c(b), c, log_odds;
    const auto judge = [&] {
      c = correlation + x * load(constants.phi2 + b);
      if constexpr (TwoStep) {
        const Vec<Real> w = load(t.w + b);
        log_odds = load(g.logit + b) + g.g_o * (w * c - Real(0.5) * w * w * load(constants.s + b));
      } else {
        log_odds = load(constants.odds + b) + load(constants.gain + b) * c * c;
      }
    };
    judge();
    const unsigned was_on = mask_nonzero(x);
    // z = 1 where u < sigmoid(log odds), that is where the log odds exceed logit(u).
    if ((mask_greater(log_odds, below_logit<Real>(uniform<Real>(t.uniform + b))) | was_on) != 0) {
      const Vec<Real> threshold = logit_uniform<Real>(t.uniform + b);
      unsigned ahead = ~0u;
      for (;;) {
        const unsigned on = mask_greater(log_odds, threshold);
        const unsigned events = (on | was_on) & ahead & ((1u << (W - 1) << 1) - 1u);
        if (events == 0) break;
        const int lane = __builtin_ctz(events), k = b + lane;
        Real weight = 0;
        if (on >> lane & 1) {
          Real normal;
          if (TwoStep || (was_on >> lane & 1))
            normal = t.normal[k];
          else
            normal = static_cast<Real>(normal_of_word(key.word(bpfa::kNormal, sweep, k)));
          weight = constants.scale[k] * extract<Real>(c, lane) + constants.sd[k] * normal;
          // x = 0 says that a feature is off; a weight that rounds to zero must not.
          if (weight == 0) weight = smallest<Real>;
          t.active[n_next++] = k;
        }
        const Real delta = weight - t.x[k];
        correlation -= delta * row.overlap(k, b);
        row.change(k, delta);
        t.x[k] = weight;
        // Lanes up to this one are done; twice, as shifting by the full width is undefined.
        ahead = ~0u << lane << 1;
        if ((ahead & ((1u << (W - 1) << 1) - 1u)) == 0) break;
        judge();
      }
    }
    if constexpr (TwoStep) {
      const Vec<Real> drawn = load(t.x + b);
      store(t.w + b, drawn != Vec<Real>{} ? drawn : idle_sd * load(t.normal + b));
    }
  }
  return n_next;
}

// Writes the lists of a group of rows one behind the other.
template <class Real>
struct ListWriter {
  const Chunk<Real>& chunk;
  int lists_per_row;
  std::size_t at;
  std::int32_t* count = nullptr;

  void open(int slot, int list) {
    const std::size_t index = static_cast<std::size_t>(slot) * lists_per_row + list;
    chunk.start[index] = at;
    count = chunk.count + index;
    *count = 0;
  }
  void add(int feature, Real value) {
    chunk.feature[at] = feature;
    chunk.value[at++] = value;
    ++*count;
  }
};

// Runs the chain of one row; its kept states go to the lists, to the row's output, or both.
template <class Real, class Row, bool TwoStep>
void gibbs_row(const Globals<Real>& g, const Settings& settings, const bpfa::Rows<Real>& rows, std::int64_t i,
               ListWriter<Real>* lists, int slot, const RowOutput<Real>& out, Row& row, const GibbsScratch<Real>& t) {
  constexpr int W = lanes<Real>;
  const RowKey key(settings.key, static_cast<std::uint64_t>(rows.ids[i]), settings.step);
  const std::size_t at = static_cast<std::size_t>(i) * g.K;
  const Real* y = rows.values + i * g.D;
  const std::uint8_t* observed = rows.observed ? rows.observed + i * g.D : nullptr;
  if (settings.dropout) {
    row_words(key, bpfa::kUniform, 0, g.D, t.dropout_words);
    for (int d = 0; d < g.D; ++d) {
      t.seen[d] = (!observed || observed[d]) && t.dropout_words[d] >= settings.dropout;
      t.y[d] = t.seen[d] ? y[d] : Real(0);
    }
    row.begin(t.y, t.seen);
  } else {
    row.begin(y, observed);
  }
  for (int b = 0; b < g.KP; b += W) store(t.x + b, Vec<Real>{});
  int n_active = 0;
  if (rows.start_z) {
    for (int k = 0; k < g.K; ++k) {
      const Real x = rows.start_z[at + k] * rows.start_w[at + k];
      if (x == 0) continue;
      t.x[k] = x;
      t.active[n_active++] = k;
      row.change(k, x);
    }
  }
  if constexpr (TwoStep) {
    // The odds of z are taken given w, so that an idle w must be there: drawn from its prior at the start of
    // a chain, handed over when a chain goes on.
    row_words(key, bpfa::kNormal, 0, g.K, t.words);
    const Real idle_sd = 1 / Real(__builtin_sqrt(g.g_w));
    for (int b = 0; b < rounded<Real>(g.K); b += W) store(t.w + b, idle_sd * normal_of_words<Real>(t.words + b));
    if (rows.start_z)
      for (int k = 0; k < g.K; ++k)
        if (rows.start_z[at + k] != 0 || settings.first_sweep > 1) t.w[k] = rows.start_w[at + k];
  }
  int n_ever = 0;
  const int n_sweeps = settings.burn_in + settings.n_samples;
  for (int sweep = 0; sweep < n_sweeps; ++sweep) {
    n_active = gibbs_sweep<Real, Row, TwoStep>(g, key, settings.first_sweep + sweep, row, n_active, t);
    const int sample = sweep - settings.burn_in;
    if (sample < 0) continue;
    if (lists) {
      lists->open(slot, sample);
      for (int j = 0; j < n_active; ++j) {
        const int k = t.active[j];
        lists->add(k, t.x[k]);
        // Above zero even where x^2 is not, as zero says that a feature has not been seen yet.
        const Real square = t.x[k] * t.x[k];
        if (t.square[k] == 0) t.ever[n_ever++] = k;
        t.square[k] += square > smallest<Real> ? square : smallest<Real>;
      }
    }
    if (out.z) {
      for (int j = 0; j < n_active; ++j) {
        const int k = t.active[j];
        out.z[at + k] += 1;
        out.x[at + k] += t.x[k];
        out.zw2[at + k] += t.x[k] * t.x[k];
      }
    }
  }
  if (lists) {
    lists->open(slot, settings.n_samples);
    for (int j = 0; j < n_ever; ++j) {
      lists->add(t.ever[j], t.square[t.ever[j]]);
      t.square[t.ever[j]] = 0;
    }
  }
  if (out.state_z) {
    for (int k = 0; k < g.K; ++k) {
      out.state_z[at + k] = t.x[k] != 0;
      out.state_w[at + k] = TwoStep ? t.w[k] : t.x[k];
    }
  }
}

}  // namespace BPFA_ISA
