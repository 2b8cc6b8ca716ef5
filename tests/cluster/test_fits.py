"""Fits on workers in processes of their own have the bits of the fit in this process, whatever happens."""

import logging
import os
import signal
import time

import dask
import dask.array
import numpy as np
import pytest
from cluster_settings import FIT

import bpfa
from bpfa.cluster import rows as cluster_rows
from bpfa.cluster import workers as cluster_workers
from bpfa.data.remote import RowsLostError


def same(a, b):
    np.testing.assert_array_equal(a.components_, b.components_)
    np.testing.assert_array_equal(a.noise_std_, b.noise_std_)
    for name in ("noise_std", "held_out_log_likelihood"):
        np.testing.assert_array_equal(a.history_[name], b.history_[name])


def kill_one(client):
    """Kill a worker as the operating system does when memory runs out."""
    address, pid = sorted(client.run(os.getpid).items())[0]
    os.kill(pid, signal.SIGKILL)
    return address


def test_one_chunk_gives_the_bits_of_the_fit_without_dask(table):
    whole = dask.array.from_array(table, chunks=table.shape)
    for more in ({"groups": False}, {"held_out": 0.05, "patience": 1, "max_steps": 120, "groups": False}):
        options = FIT | more | {"batch_size": 512}
        same(bpfa.BPFA(**options).fit(table), bpfa.BPFA(**options).fit(whole))


def test_without_a_client_the_rows_are_read_window_by_window(table, monkeypatch, caplog):
    monkeypatch.setattr(cluster_rows, "WINDOW_ENTRIES", 2**12)
    in_memory, most = set(), []

    def read(block, block_info=None):
        in_memory.add(block_info[0]["chunk-location"][0])
        return block

    lazy = dask.array.from_array(table, chunks=(50, 8)).map_blocks(read, dtype=float)
    from bpfa.cluster.site import Site

    hold = Site.hold

    def counted(site, chunk, number):
        hold(site, chunk, number)
        most.append(len(site.held()))

    monkeypatch.setattr(Site, "hold", counted)
    with caplog.at_level(logging.WARNING, logger="bpfa"):
        bpfa.BPFA(**FIT | {"batch_size": 100, "max_steps": 60}).fit(lazy)
    assert "this process reads the rows, one window at a time" in caplog.text
    assert len(in_memory) == 120
    # The present and the next window of seven, of 120 chunks in all.
    assert max(most) <= 2 * 18


def test_the_sums_of_a_step_are_added_up_at_once(chunked, monkeypatch):
    from bpfa.cluster import site

    most, joined = [], site.largest_nodes

    def counted(nodes):
        most.append(len(nodes))
        return joined(nodes)

    monkeypatch.setattr(site, "largest_nodes", counted)
    bpfa.BPFA(**FIT | {"batch_size": 6000, "max_steps": 2}).fit(chunked)
    # Of eight shares, the sums of at most four are in memory: those of four, of two, of one, and the next.
    assert max(most) == 4


def test_two_workers_have_the_bits_of_this_process_after_kills_and_with_late_joiners(
    cluster, table, chunked, reference, monkeypatch
):
    same(bpfa.BPFA(**FIT).fit(chunked), reference)
    killed = []

    def callback(progress, history):
        if progress.step in (5, 20):
            killed.append(kill_one(cluster))
        if progress.step == 30:
            cluster.cluster_of_test.scale(3)
            cluster.wait_for_workers(3, timeout=120)

    same(bpfa.BPFA(**FIT).fit(chunked, callbacks=[callback]), reference)
    assert len(set(killed)) == 2
    # Windows much smaller than the data, so that chunks are read all the time while a worker is killed.
    monkeypatch.setattr(cluster_rows, "WINDOW_ENTRIES", 2**12)
    options = FIT | {"batch_size": 600, "held_out": 0.1, "max_steps": 50}
    fitted = bpfa.BPFA(**options).fit(chunked, callbacks=[callback])
    monkeypatch.setattr(cluster_workers, "MEMORY_SHARE", 0.0)
    again = bpfa.BPFA(**options).fit(chunked)
    same(fitted, again)
    # Nothing is left on the workers.
    assert set(cluster.run(_n_places).values()) == {0}


def _n_places():
    from bpfa.cluster.on_worker import PLACES

    return len(PLACES)


def test_all_other_algorithms_and_forms_run_on_workers(cluster, chunked):
    for more in (
        {"algorithm": "mf-svi", "features": "factorised"},
        {"algorithm": "titsias-ssvi", "features": "joint"},
        {"features": "factorised", "dropout": 0.1},
        {"device": "numpy", "max_steps": 2, "n_components": 2},
    ):
        options = {**FIT, "max_steps": 4, **more}
        on_workers = bpfa.BPFA(**options).fit(chunked)
        with dask.config.set(scheduler="synchronous"), cluster_off(cluster):
            same(on_workers, bpfa.BPFA(**options).fit(chunked))
    with pytest.raises(ValueError, match="sees expectations"):
        bpfa.BPFA(algorithm="mf-svi", features="joint", n_components=3, max_steps=2).fit(chunked)


class cluster_off:
    """No client is the current one within the block."""

    def __init__(self, client):
        self._client = client

    def __enter__(self):
        from distributed.client import _set_global_client

        _set_global_client(None)

    def __exit__(self, *_):
        from distributed.client import _set_global_client

        _set_global_client(self._client)


def test_an_interrupt_and_a_checkpoint_resume_to_the_same_bits(cluster, chunked, tmp_path):
    path = tmp_path / "model.bpfa"

    def interrupt(progress, history):
        if progress.step == 15:
            raise KeyboardInterrupt

    options = FIT | {"held_out": 0.1, "revise": True, "max_steps": 60}
    with pytest.raises(KeyboardInterrupt):
        bpfa.BPFA(**options).fit(chunked, callbacks=[interrupt], checkpoint=path)
    resumed = bpfa.BPFA(**options).fit(chunked, checkpoint=path, resume=True)
    assert resumed.n_steps_ == 60
    same(resumed, bpfa.BPFA(**options).fit(chunked))


def test_a_chunk_that_fails_to_load_ends_the_fit_with_one_error_and_a_whole_checkpoint(
    cluster, table, tmp_path
):
    flag, path = tmp_path / "broken", tmp_path / "model.bpfa"

    def read(block, block_info=None):
        if flag.exists() and block_info[0]["chunk-location"][0] == 7:
            raise OSError("disk 3 is gone")
        return block

    lazy = dask.array.from_array(table, chunks=(300, 8)).map_blocks(read, dtype=float)

    def break_disk(progress, history):
        if progress.step == 10:
            flag.touch()
            kill_one(cluster)

    model = bpfa.BPFA(**FIT)
    with pytest.raises(
        RowsLostError, match=r"chunk 7 \(rows 2100 to 2399\): cannot be read \(OSError: disk 3"
    ):
        model.fit(lazy, callbacks=[break_disk], checkpoint=path)
    assert bpfa.BPFA.load(path).n_steps_ == 10
    assert model.n_steps_ == 10
    flag.unlink()
    resumed = bpfa.BPFA(**FIT).fit(lazy, checkpoint=path, resume=True)
    same(resumed, bpfa.BPFA(**FIT).fit(dask.array.from_array(table, chunks=(300, 8))))


def test_a_scheduler_that_goes_away_leaves_the_last_step(chunked, reference, tmp_path):
    import subprocess
    import sys

    import distributed

    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen([*command, "--scheduler-file", file], stderr=subprocess.DEVNULL)
    while not file.exists():
        time.sleep(0.1)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny"]
    worker = subprocess.Popen(
        [*command, "--no-dashboard", "--scheduler-file", file], stderr=subprocess.DEVNULL
    )
    path = tmp_path / "model.bpfa"
    try:
        with distributed.Client(scheduler_file=file, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=30)

            def leave(progress, history):
                if progress.step == 12:
                    scheduler.kill()

            with pytest.raises(
                RowsLostError, match=r"the scheduler does not answer any more|client is closed"
            ):
                bpfa.BPFA(**FIT).fit(chunked, client=client, callbacks=[leave], checkpoint=path)
    finally:
        scheduler.kill()
        worker.kill()
        scheduler.wait()
        worker.wait()
    assert bpfa.BPFA.load(path).n_steps_ == 12
    same(bpfa.BPFA(**FIT).fit(chunked, resume=path), reference)
