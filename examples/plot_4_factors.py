"""
Read the factors of a table, and name them
==========================================

With ``sparse="columns"`` a column may use some factors and not others, and the model says with which probability
it uses each of them. We read the factors of a table of measurements, and check that they mean something that the
model was not told.
"""

# %%
# The data
# --------
# 569 tumours with 30 measurements each (Wisconsin Diagnostic Breast Cancer, part of scikit-learn): ten properties
# of the nuclei of cells, each as a mean, as a standard error, and as the worst value.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

import bpfa

bunch = load_breast_cancer(as_frame=True)
table = np.log(bunch.data + 0.01)
malignant = (bunch.target == 0).to_numpy()

# %%
# Fit
# ---
# Eight factors are allowed. Factors that no more than one column uses are left out of the result.

model = bpfa.BPFA(n_components=8, sparse="columns", init="random", max_steps=1000, random_state=0).fit(table)
print(f"{model.n_components_used_} of {len(model.components_)} factors in use")

# %%
# Read
# ----
# A loading counts if the column uses the factor with a probability above one half. These measurements are strongly
# correlated, and most loadings count; the largest ones tell the factors apart.

loadings = model.components_ / model.scale_
figure, axis = plt.subplots(figsize=(7, 8), layout="constrained")
largest = np.abs(loadings).max()
shown = axis.imshow(loadings.T, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
axis.set_yticks(range(table.shape[1]), table.columns)
axis.set_xticks(range(len(loadings)), [f"bpfa{k}" for k in range(len(loadings))])
figure.colorbar(shown, label="loading (standard deviations of the column)")

in_use = model.loading_probabilities_ > 0.5
print(f"{in_use[: model.n_components_used_].mean():.0%} of the loadings of these factors are in use")
for k in range(model.n_components_used_):
    strongest = [d for d in np.argsort(-np.abs(loadings[k])) if in_use[k, d]][:4]
    print(f"bpfa{k}: " + ", ".join(f"{loadings[k, d]:+.2f} {table.columns[d]}" for d in strongest))

# %%
# Name
# ----
# The signs of a factor and of its scores can be exchanged together, so look at them side by side. Do the scores
# of the tumours, which were computed without the diagnosis, tell benign from malignant ones? An area of 0.5 under
# the curve means that a factor knows nothing of it; 1 or 0 means that it separates the two.

scores = pd.DataFrame(model.transform(table), columns=model.get_feature_names_out())
areas = [roc_auc_score(malignant, scores[name]) for name in scores]
summary = model.component_summary(table).assign(area_under_curve=np.round(areas, 2))
print(summary.round(3).to_string())

best = int(np.argmax(np.abs(np.array(areas) - 0.5)))
print(f"bpfa{best} separates them best, with an area of {areas[best]:.2f}")

# %%
# The factor whose largest loadings are concavity, concave points and compactness, that is, how irregular the nuclei
# are, separates the two kinds of tumours almost completely, although the model was not told the diagnosis.
