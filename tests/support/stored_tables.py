"""A small table with missing entries, and functions that write such a table to files of every kind."""

import flowio
import h5py
import numpy as np
import pandas as pd
import pytest
import zarr

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


def write_npy(path, array):
    np.save(path, array)


def write_npz(path, array):
    np.savez(path, array)


def write_csv(path, array):
    pd.DataFrame(array, columns=NAMES).to_csv(path, index=False)


def write_tsv(path, array):
    pd.DataFrame(array, columns=NAMES).to_csv(path, index=False, sep="\t")


def write_parquet(path, array):
    pd.DataFrame(array, columns=NAMES).to_parquet(path)


def write_hdf5(path, array):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array, chunks=(5, 4))


def write_zarr(path, array):
    zarr.create_array(str(path), data=array, chunks=(6, 4))


WRITERS = {
    ".npy": write_npy,
    ".npz": write_npz,
    ".csv": write_csv,
    ".tsv": write_tsv,
    ".parquet": write_parquet,
    ".h5": write_hdf5,
    ".hdf5": write_hdf5,
    ".h5ad": write_h5ad,
    ".zarr": write_zarr,
    ".fcs": lambda path, array: write_fcs(path, array),
}
