"""
A file larger than memory
=========================

:func:`bpfa.open_rows` opens a file without reading it, and a fit reads it in shuffled windows. The memory that
training takes does not grow with the file. We write two files, one four times as large as the other, fit a model
to each, and measure.
"""

# %%
# Two files
# ---------
# Rows of 40 columns in single precision, with a tenth of the entries missing: 120 and 480 MB. They are written
# in pieces, so that this program never holds them either. A file of a terabyte is treated no differently.

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bpfa

COLUMNS, PIECE = 40, 50_000
rng = np.random.default_rng(0)
features = bpfa.draw_data(1, COLUMNS, 10, g_o=100.0, g_w=1.0, seed=0).phi


def new_rows(n):
    """Return rows of which each uses about three of ten features, with noise and with holes."""
    weights = rng.normal(size=(n, len(features))) * (rng.random((n, len(features))) < 0.3)
    values = weights @ features + rng.normal(scale=0.1, size=(n, COLUMNS))
    values[rng.random(values.shape) < 0.1] = np.nan
    return values


def write_file(path, n_rows):
    """Write a file of NumPy's format piece by piece."""
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, COLUMNS)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(0, n_rows, PIECE):
            file.write(new_rows(PIECE).astype("<f4").tobytes())


folder = tempfile.TemporaryDirectory()
paths = {n_rows: Path(folder.name) / f"{n_rows}.npy" for n_rows in (750_000, 3_000_000)}
for n_rows, path in paths.items():
    write_file(path, n_rows)

# %%
# Two fits
# --------
# Each runs in a process of its own, which prints its largest memory at the end. The number of steps is limited
# here; without a limit a fit makes ten passes over the file.

PROGRAM = """
import resource, sys
import bpfa

rows = bpfa.open_rows(sys.argv[1])
model = bpfa.BPFA(n_components=16, max_steps=200, random_state=0).fit(rows)
model.save(sys.argv[1] + ".bpfa")
print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f}")
"""
sizes, peaks = [], []
for path in paths.values():
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], check=True, capture_output=True, text=True
    ).stdout
    sizes.append(path.stat().st_size / 1e6)
    peaks.append(float(printed))
    print(f"file of {sizes[-1]:.0f} MB: the process took at most {peaks[-1]:.0f} MB")

figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
places = np.arange(len(sizes))
axis.bar(places - 0.2, sizes, 0.4, label="file")
axis.bar(places + 0.2, peaks, 0.4, label="largest memory of the process")
axis.set(ylabel="MB", xticks=places, xticklabels=[f"{n_rows:,} rows" for n_rows in paths])
axis.legend()

# %%
# Most of the memory is that of Python with its libraries and of two windows of the file: the one that is used,
# and the next one, which is read in the meantime.
#
# Judge
# -----
# Rows that come after the fit can judge the model: a tenth of their entries is hidden from it and predicted.

model = bpfa.BPFA.load(f"{path}.bpfa")
print(f"{model.n_components_used_} features in use; noise {model.noise_std_.mean():.3f}, in truth 0.1")
print(model.variance_explained(new_rows(2000)).to_string(index=False))

# %%
# Use
# ---
# ``transform`` and ``impute`` return arrays in memory. For a large file, call them for one piece at a time.

pieces = np.load(path, mmap_mode="r")
for start in range(0, 2000, 1000):
    piece = np.array(pieces[start : start + 1000])
    filled = model.impute(piece)
    print(f"rows {start} to {start + 1000}: {np.isnan(piece).sum()} missing, then {np.isnan(filled).sum()}")

del pieces
folder.cleanup()
