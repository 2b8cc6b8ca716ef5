"""
Check the calibration of a model
================================

A standard deviation is a promise: 95 % of the entries that were not seen should lie within 1.96 of them. We check it
in three ways: on data for which wide intervals keep their promise and narrow ones are too wide, on the same data treated
badly, and on entries that are missing for what they are, where the check itself is blind.
"""

# %%
# The data
# --------
# 569 tumours with 30 measurements each (Wisconsin Diagnostic Breast Cancer, part of scikit-learn), as logarithms,
# because the measurements are positive and skewed. With ``held_out=0.1`` the fit does not see a tenth of the entries.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer

import bpfa

measured = load_breast_cancer(as_frame=True).data
table = np.log(measured + 0.01)
model = bpfa.BPFA(held_out=0.1, random_state=0).fit(table)

# %%
# How many entries lie inside their intervals?
# --------------------------------------------
# :meth:`~bpfa.BPFA.calibration` uses the entries that were held out, and says so in the column "entries". If it
# says "seen in the fit" instead, the figures are too good to be used.

levels = np.linspace(0.05, 0.95, 19)
calibration = model.calibration(table, levels=levels)
print(model.calibration(table, levels=(0.5, 0.8, 0.95)).to_string(index=False))

figure, axis = plt.subplots(figsize=(4.5, 4), layout="constrained")
axis.plot([0, 1], [0, 1], color="gray", label="ideal")
axis.plot(calibration["level"], calibration["coverage"], "o-", label="held-out entries")
axis.set(xlabel="probability of the interval", ylabel="share of the entries inside")
axis.legend()

# %%
# Points above the line mean that intervals are too wide, points below it that they are too narrow. Here narrow
# intervals contain more than they promise and wide ones what they promise: most entries are predicted better than
# their deviations say, and a few much worse. Use the wide intervals, and take the narrow ones for an upper bound.
#
# Which columns are to blame?
# ---------------------------
# An average can hide columns that are off in opposite directions. A column with 60 held-out entries has a coverage
# that is known to 0.03 only, so look for columns that are far off.

by_column = (
    model.calibration(table, levels=(0.8,), per_column=True).set_index("column")["coverage"].sort_values()
)
figure, axis = plt.subplots(figsize=(7, 6), layout="constrained")
axis.barh(by_column.index, by_column)
axis.axvline(0.8, color="gray")
axis.set(xlabel="share of the held-out entries inside intervals of 80 %", xlim=(0, 1))

# %%
# Radius, perimeter and area of a nucleus nearly determine one another, and the model is too careful about them: a
# column that appears to have no noise is not believed. The deviations of a column can be corrected by a factor, if
# it is estimated on other entries than those that it is used for.
#
# Where do the values lie within their distributions?
# ---------------------------------------------------
# The share of each predictive distribution that lies below the true value should be uniform between 0 and 1. We
# hide other entries, of which we know the truth, and fit again.

hidden = np.random.default_rng(1).random(table.shape) < 0.2


def shares_below(values, *, missing):
    """Return for every hidden entry the probability that the model gave to smaller values."""
    fitted = bpfa.BPFA(random_state=0).fit(values, missing=missing)
    mean, std = fitted.impute(values.mask(missing), return_std=True)
    standardised = ((values - mean) / std).to_numpy()[missing]
    return norm.cdf(standardised)


figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
for axis, (name, values) in zip(axes, {"logarithms": table, "as measured": measured}.items(), strict=True):
    shares = shares_below(values, missing=hidden)
    axis.hist(shares, bins=20, range=(0, 1), density=True)
    axis.axhline(1, color="gray")
    axis.set(title=name, xlabel="share of the distribution below the true value")
    print(
        f"{name}: {np.mean((shares < 0.0005) | (shares > 0.9995)):.2%} of the entries beyond 99.9 % intervals"
    )

# %%
# A peak in the middle means that deviations are too large for most entries, and peaks at the two ends that some
# values are far outside of what was thought possible: the noise has longer tails than a normal distribution.
# Compare the two numbers above: 0.1 % would be ideal. :meth:`~bpfa.BPFA.residuals` shows which columns have such
# tails; a logarithm or ``arcsinh`` often cures them.
#
# What no such check can see
# --------------------------
# Now entries are missing *for what they are*: a detector saturates, and the upper fifth of every column is lost. Of
# what is left, some entries are held out as before.

lost = (table > table.quantile(0.8)).to_numpy()
censored = table.mask(lost)
biased = bpfa.BPFA(held_out=0.1, random_state=0).fit(censored)
print(biased.calibration(censored, levels=(0.95,)).to_string(index=False))

mean, std = biased.impute(censored, return_std=True)
distance = ((table - mean) / std).to_numpy()[lost]
print(f"lost entries inside their 95 % intervals: {np.mean(np.abs(distance) < 1.96):.1%}")
print(f"their mean distance from the prediction: {distance.mean():+.2f} standard deviations")

# %%
# The held-out entries say that all is well, because they are like the observed ones. The lost ones are not: they are
# predicted too low. Only knowledge of *why* entries are missing helps; the guide on missing data says what to do.
