"""
A table with 40 % of its entries missing
========================================

A real table of measurements is robbed of 40 % of its entries. :class:`bpfa.BPFA` fills them in and says how
certain each of them is. Because the true values are known, we check both.
"""

# %%
# The data
# --------
# 569 tumours with 30 measurements each (Wisconsin Diagnostic Breast Cancer, part of scikit-learn). Entries are
# removed completely at random.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

import bpfa

table = load_breast_cancer(as_frame=True).data
# These measurements are positive and skewed. Logarithms are much closer to normal; some are exactly zero.
truth = np.log(table + 0.01)
hidden = np.random.default_rng(0).random(truth.shape) < 0.4
holes = truth.mask(hidden)

# %%
# Fit and fill in
# ---------------
# Nothing is filled in before the fit: missing entries are part of the model.

model = bpfa.BPFA(random_state=0).fit(holes)
filled, std = model.impute(holes, return_std=True)
print(f"{model.n_components_used_} features in use")


def error(estimate):
    """Return the root mean square error of the hidden entries, in standard deviations of their columns."""
    difference = (np.asarray(estimate) - truth.to_numpy()) / truth.std().to_numpy()
    return np.sqrt(np.mean(difference[hidden] ** 2))


print(f"column means    {error(SimpleImputer().fit_transform(holes)):.3f}")
print(f"5 neighbours    {error(KNNImputer(n_neighbors=5).fit_transform(holes)):.3f}")
print(f"regressions     {error(IterativeImputer(max_iter=20, random_state=0).fit_transform(holes)):.3f}")
print(f"bpfa            {error(filled):.3f}")

# %%
# Many of these columns are nearly linear functions of others, which suits regressions of every column on all
# others (IterativeImputer) best. They return no standard deviations, though, and take time in proportion to the
# cube of the number of columns.

# %%
# Can the intervals be believed?
# ------------------------------
# :meth:`~bpfa.BPFA.calibration` hides entries, predicts them, and counts how many lie inside their intervals. It
# must be given entries that the fit has not seen; here we have those that we removed.

levels = np.linspace(0.1, 0.9, 9)
calibration = model.calibration(truth, held_out=hidden, levels=levels)
print(calibration[["level", "entries", "n_entries", "coverage"]].to_string(index=False))

figure, axis = plt.subplots(figsize=(4.5, 4), layout="constrained")
axis.plot([0, 1], [0, 1], color="gray", label="ideal")
axis.plot(calibration["level"], calibration["coverage"], "o-", label="hidden entries")
axis.set(xlabel="probability of the interval", ylabel="share of the entries inside")
axis.legend()

# %%
# Which columns can be trusted?
# -----------------------------
# Some columns are nearly determined by others, and some are on their own. The model knows which: the standard
# deviation of its predictions, relative to that of the column, is near 1 where it can do no better than the mean.

relative = (std.where(hidden).mean() / holes.std()).sort_values()
figure, axis = plt.subplots(figsize=(7, 6), layout="constrained")
axis.barh(relative.index, relative)
axis.set(xlabel="standard deviation of predictions / standard deviation of the column", xlim=(0, 1.1))
axis.invert_yaxis()
