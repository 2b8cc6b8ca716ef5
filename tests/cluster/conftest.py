"""A cluster of two processes that all tests of this folder share, and a table in chunks."""

import logging

import numpy as np
import pytest
from cluster_settings import FIT

import bpfa

dask_array = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="session")
def table():
    """6,000 rows of 8 columns, a tenth of the entries missing."""
    values = bpfa.draw_data(6000, 8, 4, g_o=50.0, g_w=1.0, seed=0).y
    values[np.random.default_rng(0).random(values.shape) < 0.1] = np.nan
    return values


@pytest.fixture(scope="session")
def chunked(table):
    return dask_array.from_array(table, chunks=(300, 8))


@pytest.fixture(scope="session")
def reference(chunked):
    """The fit in this process, window by window, whose bits all others must have."""
    return bpfa.BPFA(**FIT).fit(chunked)


@pytest.fixture
def cluster():
    """Two workers in processes of their own, and a client; some tests kill workers, so each has its own."""
    quiet = {"distributed.scheduler.allowed-failures": 30}
    import dask

    with (
        dask.config.set(quiet),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as local,
        distributed.Client(local) as client,
    ):
        client.cluster_of_test = local
        yield client
