"""The pictures and matrices that the ablation and the ideas are tried on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from bpfa import ALGORITHMS, ArrayRows, Rows, algorithm
from bpfa._support.philox import Stream
from bpfa.images import PatchRows, defaults
from bpfa.images.canvas import Canvas
from bpfa.model.posterior import Posterior
from experiments import pictures, tables
from experiments.cells import DataFile
from experiments.pictures import HiddenPicture, PictureTask
from experiments.scores import HiddenEntries

SEEDS = (0, 1, 2)
PATCH = 8
# How a picture is restored at the end of a run.
STRIDE, PICTURE_DRAWS = 2, 4


class Problem(NamedTuple):
    """Data to learn from, and how to do so."""

    file: DataFile
    n_features: int
    batch_size: int
    schedule: dict[str, tuple[float, float]]
    """The delay and decay of the step sizes, for each form of the features."""
    scored: int
    """The number of rows whose hidden entries are scored."""
    n_draws: int
    picture: PictureTask | None = None


def _picture(name: str, observed: float, noise: float) -> Problem:
    task = PictureTask(name, observed, noise)
    # Joint features allow longer steps, because no feature tries to explain the residual alone.
    schedule = {"factorised": (0.0, 0.75), "joint": (0.0, 0.5)}
    return Problem(task.file, defaults.N_COMPONENTS, defaults.BATCH_SIZE, schedule, 1000, 10, task)


def _matrix(name: str, n_features: int) -> Problem:
    schedule = dict.fromkeys(("factorised", "joint"), (20.0, 0.6))
    return Problem(tables.SOURCES[name].file, n_features, 256, schedule, 2000, 20)


PROBLEMS = {
    "house 20 %": _picture("house", 0.2, 0.0),
    "barbara 50 % + 15": _picture("barbara", 0.5, 15.0),
    "cytometry": _matrix("cytometry", 16),
    "expression": _matrix("expression", 40),
}


class Data(NamedTuple):
    """A problem with its entries hidden."""

    rows: Rows
    entries: HiddenEntries
    canvas: Canvas | None = None
    picture: HiddenPicture | None = None

    def psnr(self, posterior: Posterior, name: str, *, noisy: bool, seed: int) -> float:
        """Return the PSNR in dB of the picture as restored by a posterior of the algorithm `name`.

        It is taken over the missing pixels, or over all of them where they are noisy.
        """
        assert self.canvas is not None
        assert self.picture is not None
        burn_in = {"burn_in": defaults.BURN_IN} if ALGORITHMS[name].method == "Gibbs" else {}
        restored = pictures.restored_picture(
            self.canvas,
            posterior,
            algorithm(name, n_jobs=1, **burn_in),
            patch_size=PATCH,
            stride=STRIDE,
            n_draws=PICTURE_DRAWS,
            stream=Stream.from_seed(seed).child("restoration"),
        )
        scored = pictures.pixels_to_score(self.picture.missing, noisy=noisy)
        return pictures.clipped_psnr(self.picture.truth, restored, scored)


def load(name: str, folder: Path, seed: int) -> Data:
    """Read the data of a problem and hide entries at random by the seed."""
    problem = PROBLEMS[name]
    if problem.picture is None:
        task = tables.load(name, folder, seed)
        ids = tables.rows_to_score(len(task.train), problem.scored)
        return Data(ArrayRows(task.train), HiddenEntries.of(task.complete(), task.hidden, ids))
    picture = pictures.hide_pixels(problem.picture, folder, seed)
    canvas = Canvas.of(picture.seen, picture.missing)
    patches = PatchRows(canvas.values, canvas.observed, (PATCH, PATCH))
    ids = tables.rows_to_score(patches.n_rows, problem.scored)
    batch = patches.take(ids)
    # The missing pixels as they would have been observed, noise included.
    noise = problem.picture.noise * np.random.default_rng([seed, 1]).standard_normal(picture.truth.shape)
    whole = ((picture.truth + noise - canvas.mean) / canvas.scale)[None, :, :, None]
    complete = PatchRows(whole, np.ones(whole.shape, dtype=bool), (PATCH, PATCH)).take(ids)
    entries = HiddenEntries(batch, complete.values.astype(np.float64), ~batch.observed)
    return Data(patches, entries, canvas, picture)
