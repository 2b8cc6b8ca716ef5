"""The times of the kernels on the patches of a picture."""

from __future__ import annotations

import argparse
import time
from collections import deque
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.device import median_seconds
from benchmarks.gpu.page import shown
from bpfa import Schedule, algorithm
from bpfa._support.philox import Stream
from bpfa.backends import cpu
from bpfa.backends.cuda.gibbs import Chain
from bpfa.backends.cuda.local import Gibbs, MeanField, SpikeSlab
from bpfa.backends.cuda.rows import DeviceBatch, rows_on_device
from bpfa.data import ShuffledEpochs
from bpfa.data.patches import PatchRows
from bpfa.inference.starts import random_posterior
from bpfa.inference.svi import svi
from experiments import Array
from experiments.pictures import read_picture

SHARES = ((0.2, "20% observed"), (1.0, "complete"))
"""Shares of the pixels that are observed, and what the tables call them."""


def boat_patches(arguments: argparse.Namespace, share: float) -> PatchRows:
    """Return the patches of Boat, standardised, with a share of the pixels observed."""
    picture = read_picture("boat", arguments.data)
    values: Array = ((picture - picture.mean()) / picture.std()).astype(np.float32)[None, :, :, None]
    return PatchRows(values, np.random.default_rng(1).random(values.shape) < share, (8, 8))


def trained_view(rows: Any, n_features: int, device: str) -> Any:
    """Return a draw of the globals after a short training, after which a row uses about ten features."""
    start = random_posterior(rows, n_features, seed=0, noise_share=0.1, features_per_row=10.0)
    steps = svi(
        rows,
        start,
        algorithm("gibbs-ssvi", device=device),
        visits=ShuffledEpochs(1024, Stream.from_seed(0)),
        n_steps=300,
        schedule=Schedule(),
        stream=Stream.from_seed(0),
    )
    return deque(steps, maxlen=1).pop().state.sampled(Stream.from_seed(1).globals(0))


def kernel_times(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure all local methods."""
    view = None
    for share, name in SHARES:
        rows = boat_patches(arguments, share)
        source = rows_on_device(rows)
        # Complete rows have the same features as incomplete ones.
        view = trained_view(rows, 256, arguments.device) if view is None else view
        gibbs_times(results, arguments, rows, source, view, share, name)
        few = source.take(np.arange(65_536))
        for method in (SpikeSlab(device=arguments.device), MeanField(device=arguments.device)):
            seconds = median_seconds(partial(method.sums, view, few, Stream.from_seed(0).rows(few.ids, 1)), 3)
            work = f"{type(method).__name__}, 10 sweeps, 65,536 patches, {name}"
            results["work"][work] = {"seconds": seconds}


def gibbs_times(
    results: dict[str, Any],
    arguments: argparse.Namespace,
    rows: PatchRows,
    source: Any,
    view: Any,
    share: float,
    name: str,
) -> None:
    """Measure Gibbs sampling, its parts, and our CPU kernels on the same rows."""
    batch: DeviceBatch = source.take(np.arange(rows.n_rows))
    draws = Stream.from_seed(0).rows(batch.ids, 1)
    gibbs = Gibbs(device=arguments.device)
    sums: Any = gibbs.sums(view, batch, draws)
    features = float(sums.n.sum()) / gibbs.n_samples / len(batch)
    chain = Chain(view, False, draws.key, draws.step, burn_in=gibbs.burn_in, n_samples=gibbs.n_samples)
    part = batch.part(0, min(len(batch), 131_072))
    seconds = median_seconds(lambda: gibbs.sums(view, batch, draws))
    alone = median_seconds(lambda: chain.kept_samples(part)) * len(batch) / len(part)
    kept = chain.kept_samples(part)
    adding = median_seconds(lambda: sums.add_kept(kept, part)) * len(batch) / len(part)
    ours = cpu_seconds(view.host(), rows, 8192) * len(batch) / 8192
    # The multiply-adds that the method needs. Where entries are missing, the correlations of all features are
    # computed in every sweep; on complete rows they come from the Gram matrix. In both cases every
    # change of a feature takes one pass over what it affects.
    per_sweep = 256 * 64 * share if share < 1 else 0
    work = len(batch) * 6 * (per_sweep + features * (64 * share * 16 if share < 1 else 256))
    moved = len(batch) * 64 * 5
    found = {
        "seconds": seconds,
        "chains": alone,
        "adding_up": adding,
        "features_a_row": features,
        "cpu_seconds": ours,
        "multiply_adds": work,
        "bytes": moved,
    }
    if "ceilings" in results:
        found["fma_share"] = work / seconds / results["ceilings"]["multiply_adds_a_second"]
        found["copy_share"] = moved / seconds / results["ceilings"]["copied_bytes_a_second"]
    found["note"] = (
        f"chains {shown(alone)}, adding up {shown(adding)}, {features:.1f} features a row, CPU kernels "
        f"{shown(ours)} ({ours / seconds:.0f}x)"
    )
    results["work"][f"Gibbs, 255,025 patches, {name}"] = found


def cpu_seconds(view: Any, rows: PatchRows, n_rows: int) -> float:
    """Return the seconds that our CPU kernels take with all threads for this many rows."""
    batch = rows.take(np.random.default_rng(0).choice(rows.n_rows, n_rows, replace=False))
    draws = Stream.from_seed(0).rows(batch.ids, 1)
    times = []
    for _ in range(4):
        began = time.perf_counter()
        cpu.Gibbs().sums(view, batch, draws)
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))
