"""Commands on a cluster: the same results as without one, and a check of its workers."""

import logging

import numpy as np
import pytest
from cli_run import refused, runner

import bpfa

distributed = pytest.importorskip("distributed")


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture(scope="module")
def scheduler():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as cluster:
        yield cluster.scheduler_address


def test_tables_are_fitted_and_filled_in_on_workers(run, scheduler, tmp_path):
    values = bpfa.draw_data(40_000, 8, 4, g_o=50.0, g_w=1.0, seed=0).y.astype(np.float32)
    values[::9, 2] = np.nan
    table, model = tmp_path / "table.npy", tmp_path / "model.bpfa"
    np.save(table, values)
    on = ["--scheduler", scheduler]
    fitted = run("fit", table, model, "--components", "4", "--max-steps", "10", *on)
    assert fitted.status == 0, fitted.err
    assert bpfa.BPFA.load(model).n_steps_ == 10
    for place, options in (("here", []), ("there", on)):
        for name, more in (("impute", ["--std", tmp_path / f"std-{place}.npy"]), ("transform", [])):
            done = run(name, model, table, tmp_path / f"{name}-{place}.npy", *more, *options)
            assert done.status == 0, done.err
    for name in ("impute", "std", "transform"):
        here, there = (np.load(tmp_path / f"{name}-{place}.npy") for place in ("here", "there"))
        np.testing.assert_array_equal(here, there)


def test_a_stack_is_restored_on_workers(run, scheduler, tmp_path):
    y, x = np.mgrid[:24, :26]
    stack = np.stack([np.sin(y / 5 + k) + np.cos(x / 4) for k in range(3)])
    stack[np.random.default_rng(0).random(stack.shape) < 0.3] = np.nan
    np.save(tmp_path / "stack.npy", stack)
    options = ["--patch", "4", "--components", "6", "--max-steps", "10", "--refine", "none"]
    on = ["--scheduler", scheduler]
    done = run("inpaint", tmp_path / "stack.npy", tmp_path / "out.npy", "--stack-axis", "0", *options, *on)
    assert done.status == 0, done.err
    assert np.isfinite(np.load(tmp_path / "out.npy")).all()
    np.save(tmp_path / "slice.npy", stack[0])
    refused(
        run("denoise", tmp_path / "slice.npy", tmp_path / "flat.npy", *options, *on), "expected --stack-axis"
    )


def test_the_doctor_checks_workers_and_times_a_step(run, scheduler):
    found = run("doctor", "--scheduler", scheduler, "--json").document
    assert len(found["workers"]) == 2
    assert found["problems"] == []
    assert found["step_milliseconds"] > 0


def test_wrong_clusters_are_refused(run, tmp_path, monkeypatch):
    from bpfa.cli import cluster

    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    np.save(tmp_path / "table.npy", np.eye(4))
    files = [tmp_path / "table.npy", tmp_path / "model.bpfa"]
    for options, message in (
        (["--workers", "0"], "--workers 0: expected an integer >= 1"),
        (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], "expected at most one of them"),
        (["--scheduler", "tcp://127.0.0.1:1"], "no answer"),
    ):
        refused(run("fit", *files, *options), message)
