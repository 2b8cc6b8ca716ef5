"""
Read the factors of an expression table, and name them
=======================================================

With ``sparse="columns"`` every gene uses some factors and not others, and the model says with which probability it
uses each of them. We read the factors of blood cells, name them by their genes, and check the names against kinds of
cells that the model was not told.
"""

# %%
# The data
# --------
# 700 blood cells and the 765 most variable of their genes, as logarithms of counts. This is a part of the 68,000 cells
# that 10x Genomics published (Zheng et al., Nature Communications 8, 2017; licence CC BY 4.0), and comes with Scanpy.
# Each cell has a label, its kind, that was found by comparison with sorted cells.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scanpy
from sklearn.metrics import roc_auc_score

import bpfa

adata = scanpy.datasets.pbmc68k_reduced().raw.to_adata()
table = adata.to_df()
kinds = adata.obs["bulk_labels"].astype(str).to_numpy()
print(f"{len(table)} cells, {table.shape[1]} genes, {len(set(kinds))} kinds of cells")

# %%
# Fit
# ---
# Twelve factors are allowed. The kinds are not part of the table.

model = bpfa.BPFA(n_components=12, sparse="columns", max_steps=200, random_state=0).fit(table)
in_use = model.loading_probabilities_ > 0.5
print(f"{model.n_components_used_} factors in use, each by {in_use.mean():.0%} of the genes on average")

# %%
# Read
# ----
# A loading counts if the gene uses the factor with a probability above one half. Here are the largest ones, in standard
# deviations of the gene.

loadings = model.components_ / model.scale_
for k in range(model.n_components_used_):
    largest = [d for d in np.argsort(-np.abs(loadings[k])) if in_use[k, d]][:6]
    genes = ", ".join(f"{loadings[k, d]:+.1f} {table.columns[d]}" for d in largest)
    print(f"bpfa{k}, {in_use[k].sum()} genes: {genes}")

# %%
# Name
# ----
# For each factor, which kind of cells has the highest scores, and how well do the scores tell it from all others? An
# area of 0.5 under the curve means that the factor knows nothing of this kind, and 1 that it separates it completely.
# The signs of a factor and of its scores can be exchanged together, so compare the signs with those above.

scores = pd.DataFrame(model.transform(table), columns=model.get_feature_names_out())
scores = scores.iloc[:, : model.n_components_used_]
means = scores.groupby(kinds).mean()
areas = [roc_auc_score(kinds == kind, scores[name]) for name, kind in means.idxmax().items()]
print(pd.DataFrame({"highest in": means.idxmax(), "area under the curve": np.round(areas, 2)}).to_string())

figure, axis = plt.subplots(figsize=(8, 5), layout="constrained")
largest = np.abs(means).to_numpy().max()
shown = axis.imshow(means, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
axis.set_xticks(range(means.shape[1]), means.columns, rotation=90)
axis.set_yticks(range(len(means)), means.index)
figure.colorbar(shown, label="mean score of the cells")

# %%
# The genes give the names. CD79A and MS4A1 are markers of B cells, GNLY and NKG7 of natural killer cells, FCGR3A and CFD of
# monocytes, and CYTL1 and SPINK2 of progenitors in the blood, which are the cells labelled CD34+: the scores of each of
# these factors clearly tell their kind from the others.
#
# Other factors are not about a kind that has a label. TNFRSF17, MZB1 and IGJ are genes of plasma cells, of which the
# labels know nothing. STMN1, HMGB2 and PCNA are switched on in cells that divide. The last factors explain little, have
# small loadings, and are best left without a name.
