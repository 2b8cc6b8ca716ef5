"""
Multiple imputation for a regression
====================================

A table filled in with best guesses looks more certain than it is. Multiple imputation draws several completed
tables instead, analyses each of them, and combines the results by Rubin's rules, so that standard errors contain
what the holes leave open. We take 40 % of the measurements out of a real table and regress its outcome on the rest.
"""

# %%
# The data
# --------
# 442 patients, ten measurements, and the progression of their diabetes a year later (part of scikit-learn). The
# outcome is always known. It belongs into the table that is imputed, or its relation to the imputed entries is lost.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

import bpfa

data = load_diabetes(as_frame=True)
truth = data.data[["age", "bmi", "bp", "s3", "s5"]].assign(progression=data.target)
truth = (truth - truth.mean()) / truth.std()
predictors = truth.columns[:-1]
rng = np.random.default_rng(0)
hidden = rng.random(truth.shape) < 0.4
hidden[:, -1] = False
holes = truth.mask(hidden)


def regression(table):
    """Return the coefficients of a linear regression, and their variances."""
    A = np.column_stack([np.ones(len(table)), table[predictors]])
    y = table["progression"].to_numpy()
    coefficients, squares, *_ = np.linalg.lstsq(A, y, rcond=None)
    variances = np.diag(np.linalg.inv(A.T @ A)) * squares[0] / (len(y) - A.shape[1])
    return coefficients[1:], variances[1:]


# %%
# Drawing completed tables
# ------------------------
# Missing entries of a row depend on one another, so they are drawn one after another: given those that were drawn
# before, :meth:`~bpfa.BPFA.impute` tells the mean and the standard deviation of the next one. And the model itself is
# uncertain, so that every table comes from a model of its own, fitted to rows that are drawn with replacement.


def drawn_table(seed):
    """Return the table with a draw in every hole."""
    rng = np.random.default_rng(seed)
    resampled = holes.iloc[rng.integers(len(holes), size=len(holes))]
    model = bpfa.BPFA(random_state=seed, max_steps=100, groups=False).fit(resampled)
    table = holes.copy()
    for column in rng.permutation(predictors):
        mean, std = model.impute(table, return_std=True, n_draws=16)
        table[column] = mean[column] + std[column] * rng.normal(size=len(table))
    return table


N_TABLES = 20
results = [regression(drawn_table(seed)) for seed in range(N_TABLES)]
coefficients, variances = (np.array(part) for part in zip(*results, strict=True))

# %%
# Rubin's rules
# -------------
# The estimate is the mean over the tables. Its variance is the mean of their variances, plus the variance between
# them with a little more because there are finitely many.

estimate = coefficients.mean(axis=0)
total = variances.mean(axis=0) + (1 + 1 / N_TABLES) * coefficients.var(axis=0, ddof=1)

# %%
# Compared
# --------
# With the complete table, which we happen to have; with the few rows that have no hole; and with a single table of
# best guesses, whose standard errors are too small.

single = bpfa.BPFA(random_state=0, max_steps=100, groups=False).fit(holes).impute(holes)
found = {
    "nothing missing": regression(truth),
    f"the {int((~hidden.any(axis=1)).sum())} complete rows": regression(holes.dropna()),
    "best guesses": regression(single),
    "multiple imputation": (estimate, total),
}
print(
    pd.DataFrame(
        {
            name: [f"{c:6.2f} ± {np.sqrt(v):.2f}" for c, v in zip(*pair, strict=True)]
            for name, pair in found.items()
        },
        index=predictors,
    ).to_string()
)

figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for i, (name, (mean, variance)) in enumerate(found.items()):
    places = np.arange(len(predictors)) + 0.18 * (i - 1.5)
    axis.errorbar(places, mean, 1.96 * np.sqrt(variance), fmt="o", capsize=3, label=name)
axis.axhline(0, color="gray", linewidth=0.8)
axis.set_xticks(range(len(predictors)), predictors)
axis.set(ylabel="coefficient and 95 % interval, in standard deviations")
axis.legend()
