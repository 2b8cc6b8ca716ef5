// Gibbs sampling of one row (docs/math.md section 4). The lanes of a vector are features. The odds of a whole register
// of features are computed at once, and computed again only after one of them has changed, since a change alters the
// residual that the following features see. Most features are off and stay off, so most registers are computed once.
#pragma once

#include "philox_vec.h"
#include "rows.h"

namespace BPFA_ISA {

using bpfa::Chunk;
using bpfa::RowKey;
using bpfa::RowOutput;
using bpfa::Settings;

// A number that is practically zero but is not flushed to zero.
template <class Real>
constexpr Real smallest = sizeof(Real) == 4 ? Real(1e-37) : Real(1e-300);

// Working memory for the chain of one row.
template <class Real>
struct GibbsScratch {
  Real* x;                 // KP: z w
  Real* w;                 // KP: w, for the two-step form only
  Real* normal;            // KP: standard normal numbers
  std::uint32_t* uniform;  // KP: the random words of uniform numbers
  std::uint32_t* words;    // KP: the random words of normal numbers
  std::int32_t* active;    // KP: the features that are on, in ascending order
  Real* square;            // KP: sum of x^2 over the kept samples; all zero between rows
  std::int32_t* ever_on;   // KP: the features that were on in any kept sample
  // Used only when entries are dropped from the chains:
  std::uint32_t* dropout_words;  // D, padded to whole groups of 64 words
  std::uint8_t* visible;         // DP: whether an entry is observed and not dropped
  Real* y;                       // DP: the row, zero where it is not visible
};

// Computes the standard normal numbers of the features that are on, a register of them at a time. Features that are on
// tend to stay on, so these numbers will nearly all be needed; those of features that are switched on are computed one
// by one in gibbs_sweep.
template <class Real>
BPFA_INLINE void normals_of_active(const RowKey& key, int sweep, int n_active, const GibbsScratch<Real>& t) {
  for (int first = 0; first < n_active; first += word_lanes) {
    const int n = n_active - first < word_lanes ? n_active - first : word_lanes;
    // Lanes beyond the end of the list compute numbers that are never read.
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

// Draws z and w of all features of a row once, in order, and returns how many features are on afterwards. t.active
// lists the n_active features that were on before, and is replaced by a list of those that are on now.
template <class Real, class Row, bool TwoStep>
BPFA_INLINE int gibbs_sweep(const Globals<Real>& globals, const RowKey& key, int sweep, const Row& shared_row,
                            int n_active, const GibbsScratch<Real>& scratch) {
  constexpr int W = lanes<Real>;
  // Local copies, to which no other pointer leads. A store through a vector pointer may alias anything, so without them
  // the compiler would have to reload every pointer after each store.
  const Globals<Real> g = globals;
  const GibbsScratch<Real> t = scratch;
  Row row = shared_row;
  const Constants<Real> constants = row.constants;
  row_words(key, bpfa::kUniform, sweep, g.K, t.uniform);
  const Real idle_sd = 1 / Real(__builtin_sqrt(g.g_w));
  if constexpr (TwoStep) {
    row_words(key, bpfa::kNormal, sweep, g.K, t.words);
    for (int b = 0; b < rounded_up<Real>(g.K); b += W) store(t.normal + b, normal_of_words<Real>(t.words + b));
  } else {
    normals_of_active(key, sweep, n_active, t);
  }
  int n_on = 0;
  for (int b = 0; b < rounded_up<Real>(g.K); b += W) {
    const Vec<Real> x = load(t.x + b);
    Vec<Real> correlation = row.c(b), c, log_odds;
    const auto update_odds = [&] {
      c = correlation + x * load(constants.phi2 + b);
      if constexpr (TwoStep) {
        const Vec<Real> w = load(t.w + b);
        log_odds = load(g.logit + b) + g.g_o * (w * c - Real(0.5) * w * w * load(constants.s + b));
      } else {
        log_odds = load(constants.odds + b) + load(constants.gain + b) * c * c;
      }
    };
    update_odds();
    const unsigned was_on = mask_nonzero(x);
    // z = 1 if u < sigmoid(log odds), that is if the log odds exceed logit(u). If even a lower bound of logit(u) shows
    // that every feature of this register is off and stays off, there is nothing to do.
    if ((mask_greater(log_odds, below_logit<Real>(uniform<Real>(t.uniform + b))) | was_on) != 0) {
      const Vec<Real> threshold = logit_uniform<Real>(t.uniform + b);
      unsigned not_yet_visited = ~0u;
      for (;;) {
        const unsigned on = mask_greater(log_odds, threshold);
        const unsigned to_visit = (on | was_on) & not_yet_visited & ((1u << (W - 1) << 1) - 1u);
        if (to_visit == 0) break;
        const int lane = __builtin_ctz(to_visit), k = b + lane;
        Real weight = 0;
        if (on >> lane & 1) {
          Real normal;
          if (TwoStep || (was_on >> lane & 1))
            normal = t.normal[k];
          else
            normal = static_cast<Real>(normal_of_word(key.word(bpfa::kNormal, sweep, k)));
          weight = constants.scale[k] * extract<Real>(c, lane) + constants.sd[k] * normal;
          // x = 0 means that a feature is off, so the weight of a feature that is on must not be exactly zero.
          if (weight == 0) weight = smallest<Real>;
          t.active[n_on++] = k;
        }
        const Real delta = weight - t.x[k];
        correlation -= delta * row.overlap(k, b);
        row.change(k, delta);
        t.x[k] = weight;
        // Lanes up to and including this one are done. The shift is made in two steps, because shifting by the full
        // width of the type would be undefined.
        not_yet_visited = ~0u << lane << 1;
        if ((not_yet_visited & ((1u << (W - 1) << 1) - 1u)) == 0) break;
        update_odds();
      }
    }
    if constexpr (TwoStep) {
      const Vec<Real> drawn = load(t.x + b);
      store(t.w + b, drawn != Vec<Real>{} ? drawn : idle_sd * load(t.normal + b));
    }
  }
  return n_on;
}

// Writes the lists of a group of rows one after another into the chunk.
template <class Real>
struct ListWriter {
  const Chunk<Real>& chunk;
  int lists_per_row;
  std::size_t at;
  std::int32_t* count = nullptr;

  // Begins the given list of the row in a slot.
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

// Runs the chain of row i. The kept samples go to the lists that the sums are computed from, to the row's own output,
// or to both.
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
      t.visible[d] = (!observed || observed[d]) && t.dropout_words[d] >= settings.dropout;
      t.y[d] = t.visible[d] ? y[d] : Real(0);
    }
    row.begin(t.y, t.visible);
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
    // The odds of z are conditional on w, so features that are off need a w too. At the start of a chain it is drawn
    // from its prior; a chain that is continued brings it along.
    row_words(key, bpfa::kNormal, 0, g.K, t.words);
    const Real idle_sd = 1 / Real(__builtin_sqrt(g.g_w));
    for (int b = 0; b < rounded_up<Real>(g.K); b += W) store(t.w + b, idle_sd * normal_of_words<Real>(t.words + b));
    if (rows.start_z)
      for (int k = 0; k < g.K; ++k)
        if (rows.start_z[at + k] != 0 || settings.first_sweep > 1) t.w[k] = rows.start_w[at + k];
  }
  int n_ever_on = 0;
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
        // The square is made positive even if x^2 underflows to zero, because zero means here that the feature has not
        // been on in any kept sample yet.
        const Real square = t.x[k] * t.x[k];
        if (t.square[k] == 0) t.ever_on[n_ever_on++] = k;
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
    for (int j = 0; j < n_ever_on; ++j) {
      lists->add(t.ever_on[j], t.square[t.ever_on[j]]);
      t.square[t.ever_on[j]] = 0;
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
