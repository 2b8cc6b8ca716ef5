"""
Two panels of markers, merged
=============================

Two samples of the same cells were measured with different panels: eight markers are in both, eight only in the
first, and eight only in the second. :func:`bpfa.open_rows` makes one table of them, in which the markers that a
panel lacks are missing, and :meth:`bpfa.BPFA.impute` predicts them, with a standard deviation for every entry. Cells
have types, so that a cell is best predicted by cells like it.
"""

# %%
# The data
# --------
# Drawn, so that the truth is known: seven types of cells, each with a profile of its own and with two programmes
# that make its cells vary.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.impute import KNNImputer
from sklearn.linear_model import LinearRegression

import bpfa

N_CELLS, N_MARKERS, N_TYPES = 6000, 24, 7
rng = np.random.default_rng(0)
names = np.array([f"marker {i + 1:02d}" for i in range(N_MARKERS)])
types = rng.integers(N_TYPES, size=N_CELLS)
profiles = 1.2 * rng.normal(size=(N_TYPES, N_MARKERS))
programmes = 0.5 * rng.normal(size=(N_TYPES, 2, N_MARKERS))
truth = profiles[types] + np.einsum("nk,nkd->nd", rng.normal(size=(N_CELLS, 2)), programmes[types])
truth += 0.4 * rng.normal(size=truth.shape)

shared, first_only, second_only = names[:8], names[8:16], names[16:]
cells = pd.DataFrame(truth, columns=names)
first = cells.iloc[: N_CELLS // 2][[*shared, *first_only]]
second = cells.iloc[N_CELLS // 2 :][[*shared, *second_only]]

# %%
# One table
# ---------
# Columns are matched by their names, whatever their order. The report says which markers the panels have in common.

rows = bpfa.open_rows({"first panel": first, "second panel": second}, columns="union")
print(rows.overlap)

model = bpfa.BPFA(random_state=0).fit(rows)
print(f"prediction by {model.groups_.in_words()}" if model.groups_ else "prediction by the features alone")
filled, std = model.impute(rows, return_std=True)
filled, std = filled[names], std[names]
hidden = np.zeros(truth.shape, dtype=bool)
hidden[: N_CELLS // 2, 16:] = hidden[N_CELLS // 2 :, 8:16] = True

# %%
# How good is it?
# ---------------
# The other two methods see the same table: regression on the shared markers, and the mean of the nearest cells.


def regression():
    """Return the table with the markers that a panel lacks predicted by the shared ones."""
    predicted = cells.where(~hidden)
    for panel, other, wanted in ((first, second, second_only), (second, first, first_only)):
        fitted = LinearRegression().fit(other[shared], other[wanted])
        predicted.loc[panel.index, wanted] = fitted.predict(panel[shared])
    return predicted.to_numpy()


def error(estimate):
    """Return the mean squared error of the hidden entries, in units of the variance of their columns."""
    return float(((((np.asarray(estimate) - truth) / truth.std(axis=0)) ** 2)[hidden]).mean())


neighbours = KNNImputer(n_neighbors=15).fit_transform(cells.where(~hidden))
covered = (np.abs(filled.to_numpy() - truth) < 1.96 * std.to_numpy())[hidden].mean()
print(f"column means              {error(np.where(hidden, truth.mean(axis=0), truth)):.3f}")
print(f"regression                {error(regression()):.3f}")
print(f"nearest neighbours        {error(neighbours):.3f}")
print(
    f"bpfa, features alone      {error(bpfa.BPFA(random_state=0, groups=False).fit(rows).impute(rows)[names]):.3f}"
)
print(f"bpfa                      {error(filled):.3f}")
print(f"1.96 deviations cover     {100 * covered:.1f} %")

# %%
# A marker that the first panel lacks
# -----------------------------------
# Each dot is a cell of the first panel, on which the marker was never measured.

marker = second_only[0]
place = list(names).index(marker)
here = slice(0, N_CELLS // 2)
figure, axis = plt.subplots(figsize=(5, 4.5), layout="constrained")
points = axis.scatter(truth[here, place], filled[marker].iloc[here], c=std[marker].iloc[here], s=3)
axis.axline((0, 0), slope=1, color="gray")
axis.set(xlabel=f"{marker}, measured in secret", ylabel=f"{marker}, predicted")
figure.colorbar(points, label="standard deviation of the prediction")
