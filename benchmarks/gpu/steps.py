"""The times of a step, from batch to posterior."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.gpu.kernels import SHARES, boat_patches
from benchmarks.gpu.page import shown
from bpfa import Schedule, algorithm
from bpfa._support.philox import Stream
from bpfa.backends.cuda.backend import CudaWorkspace
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import rows_on_device
from bpfa.backends.cuda.runtime import cupy_module
from bpfa.backends.protocol import Workspace
from bpfa.data import ArrayRows, read_batches
from bpfa.inference.starts import principal_posterior, random_posterior
from bpfa.inference.svi import svi_step


def step_times(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure steps on the patches of a picture, for several sizes of batches."""
    for share, name in SHARES:
        rows = boat_patches(arguments, share)
        source = rows_on_device(rows)
        start = DevicePosterior.of(random_posterior(rows, 256, seed=0), arguments.device, "float32")
        for batch_size in (256, 1024, 4096, 16_384):
            title = f"a step, {batch_size:,} patches, {name}"
            results["work"][title] = times_a_step(source, start, batch_size)


def joint_step_times(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure steps of joint features, the default of BPFA, on rows that use most of the features."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(20_000, 26)) @ rng.normal(size=(26, 40)) + rng.normal(size=(20_000, 40))
    y = (y / y.std()).astype(np.float32)
    for hidden, name in ((0.0, "complete"), (0.05, "5% hidden")):
        rows = ArrayRows(np.where(rng.random(y.shape) < hidden, np.nan, y))
        source, start = rows_on_device(rows), principal_posterior(rows, 26, seed=0, features="joint")
        posterior = DevicePosterior.of(start, arguments.device, "float32")
        for batch_size in (1024, 4096):
            title = f"a step, {batch_size:,} rows of 40 columns, 26 joint features, {name}"
            results["work"][title] = times_a_step(source, posterior, batch_size)


def times_a_step(source: Any, posterior: Any, batch_size: int) -> dict[str, Any]:
    """Return the times of a step as the training loop makes it, and of one without graphs."""
    graphs, plain = (
        float(np.median([seconds_a_step(source, posterior, batch_size, kind) for _ in range(3)]))
        for kind in (CudaWorkspace(posterior.device, posterior.real), Workspace())
    )
    return {"seconds": graphs, "without_graphs": plain, "note": f"without graphs {shown(plain)}"}


def seconds_a_step(source: Any, posterior: Any, batch_size: int, workspace: Workspace) -> float:
    """Return the mean time of 300 steps, after 100 steps of warm-up."""
    chosen, schedule = algorithm("gibbs-ssvi", device=posterior.device), Schedule()
    stream = Stream.from_seed(0)
    batches = read_batches(source, batch_size, stream)
    for step in range(1, 401):
        if step == 101:
            cupy_module().cuda.runtime.deviceSynchronize()
            began = time.perf_counter()
        posterior = svi_step(
            posterior,
            next(batches),
            chosen,
            step=step,
            rho=schedule(step),
            stream=stream,
            workspace=workspace,
        )
    posterior.check_finite()
    return (time.perf_counter() - began) / 300
