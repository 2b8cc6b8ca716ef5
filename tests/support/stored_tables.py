"""A small table with missing entries, and functions that write it to files."""

import flowio
import numpy as np
import pytest

anndata = pytest.importorskip("anndata")

N, D = 23, 4
NAMES = ["a", "b", "c", "d"]
RNG = np.random.default_rng(0)
X = np.where(RNG.random((N, D)) < 0.3, np.nan, RNG.normal(size=(N, D))).astype(np.float32)
X[5], X[:, 2] = np.nan, np.nan  # a row and a column with nothing observed
FULL = RNG.normal(size=(N, D)).astype(np.float32)


def write_fcs(path, array, detectors=NAMES, markers=None):
    with open(path, "wb") as file:
        flowio.create_fcs(file, array.ravel().tolist(), list(detectors), markers)
    return path


def write_h5ad(path, matrix):
    data = anndata.AnnData(matrix, layers={"twice": 2 * matrix})
    data.var_names = NAMES
    data.obs_names = [f"cell {i}" for i in range(N)]
    data.write_h5ad(path)
    return path
