"""
Many machines: a fit on Dask workers
====================================

The rows of a Dask array stay on the workers that hold them. Every step takes its share of rows from each, sums
over them there, and moves the posterior here. We fit a table on two worker processes, kill one of them in the
middle of a second fit, and compare.
"""

# %%
# A table in chunks
# -----------------
# Eight chunks of 2,500 rows, with a tenth of the entries missing. A table that is larger than memory would come
# from ``dask.array.from_zarr`` or ``dask.dataframe.read_parquet``.

import logging
import os
import signal

import dask
import dask.array
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

import bpfa

data = bpfa.draw_data(20_000, 16, 6, g_o=25.0, g_w=1.0, seed=0)
X = np.where(np.random.default_rng(0).random(data.y.shape) < 0.1, np.nan, data.y)
lazy = dask.array.from_array(X, chunks=(2500, 16))
settings = {"n_components": 10, "max_steps": 120, "batch_size": 4096, "random_state": 0}

# %%
# A fit, and predictions that are computed when they are needed
# -------------------------------------------------------------
# Any cluster of Dask is used in the same way as these two processes. ``impute`` returns two Dask arrays with the
# chunks of the table, and nothing is computed until they are asked for. (Worker processes may import this file,
# and must not start workers of their own: hence the first line.)

if __name__ == "__main__":
    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**local, silence_logs=logging.CRITICAL) as cluster, Client(cluster):
        model = bpfa.BPFA(**settings).fit(lazy)
        filled, std = dask.compute(*model.impute(lazy, return_std=True))

    missing = np.isnan(X)
    error = filled[missing] - data.y[missing]
    inside = np.abs(error) < 1.96 * std[missing]
    print(
        f"{model.n_components_used_} features; {inside.mean():.1%} of the true values are in 95 % intervals"
    )

# %%
# A worker is killed
# ------------------
# The other worker reads the lost chunks again, and the fit goes on to the same bits. They depend on the seed, the
# chunks and the size of a batch, and not on who computes what.

if __name__ == "__main__":
    with LocalCluster(**local, silence_logs=logging.CRITICAL) as cluster, Client(cluster) as client:

        def kill_a_worker(progress, history):
            """End a worker as the operating system does when memory runs out."""
            if progress.step == 60:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        again = bpfa.BPFA(**settings).fit(lazy, callbacks=[kill_a_worker])

    print("the same bits:", np.array_equal(model.components_, again.components_))

# %%
# What was predicted
# ------------------

if __name__ == "__main__":
    figure, axes = plt.subplots(figsize=(5, 4))
    axes.plot(data.y[missing][:3000], filled[missing][:3000], ".", markersize=2)
    axes.set(xlabel="true value", ylabel="prediction of a missing entry")
    figure.tight_layout()
    plt.show()
