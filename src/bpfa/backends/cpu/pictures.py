"""Restore a picture from its patches in compiled code, which reads every patch where it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa._support.progress import tracked
from bpfa.backends.cpu import _kernels
from bpfa.backends.cpu.local import Gibbs, view_arguments
from bpfa.backends.kernel_methods import check_precisions
from bpfa.data.overlap import EMPTY_WEIGHT, NOISE_SHARE, Restored
from bpfa.data.patches import PatchRows, Strip
from bpfa.model.posterior import Posterior

__all__ = ["restore_patches"]

# Number of values of the patches that are predicted between two sums over the picture.
STRIP_VALUES = 1 << 22


def restore_patches(
    rows: PatchRows,
    posterior: Posterior,
    local: Gibbs,
    *,
    n_draws: int,
    n_samples: int,
    stream: Stream,
    n_threads: int,
    verbose: int = 0,
) -> Restored:
    """Restore a picture from its patches, with the same draws as `bpfa.images.restore`.

    Parameters
    ----------
    rows : PatchRows
    posterior : GlobalPosterior or ChainPosterior
    local : Gibbs
        How the chains run.
    n_draws : int
        Number of draws from the posterior, at least 2.
    n_samples : int
        Number of samples of each patch under each of them.
    stream : Stream
        Source of random numbers.
    n_threads : int
        The result does not depend on it.
    verbose : int
        1 shows a progress bar in terminals and notebooks.

    Examples
    --------
    >>> from bpfa.inference.starts import random_posterior
    >>> picture = np.random.default_rng(0).normal(size=(1, 6, 5, 1))
    >>> rows = PatchRows(picture, picture > 0, (3, 3))
    >>> posterior, local = random_posterior(rows, 4, seed=0), Gibbs(burn_in=5)
    >>> found = restore_patches(rows, posterior, local, n_draws=2, n_samples=1,
    ...                         stream=Stream.from_seed(0), n_threads=1)
    >>> found.mean.shape
    (1, 6, 5, 1)
    """
    draws = stream.child("global")
    views = [posterior.sampled(draws.globals(m)) for m in range(n_draws)]
    for view in views:
        check_precisions(view, local.dtype)
    given = [view_arguments(view) for view in views]
    predict = getattr(_kernels, f"predict_patches_{local.dtype}")
    picture, sums = _picture(rows, local.dtype), _Sums(rows.shape)
    noise = NOISE_SHARE * float(np.mean([1 / view.g_o for view in views]))
    strips = rows.strips(STRIP_VALUES // rows.n_columns)
    most = max(len(strip.ids) for strip in strips)
    kept: Array = np.empty((2, most, rows.n_columns), local.dtype)
    seen = np.empty(most, np.uint8)
    for strip in tracked(strips, "restoring", shown=bool(verbose)):
        n = len(strip.ids)
        found: dict[str, NDArray[Any]] = {"mean": kept[0, :n], "squares": kept[1, :n], "informed": seen[:n]}
        for m, arguments in enumerate(given):
            predict(
                method=local._method,
                **arguments,
                **picture,
                first=rows.first_entries(strip.ids),
                ids=strip.ids,
                key=stream.child("local").key,
                step=m,
                burn_in=local.burn_in,
                n_samples=n_samples,
                n_before=m * n_samples,
                **found,
                n_threads=n_threads,
                instruction_set=local.instruction_set or "",
            )
        sums.add(rows, strip, found, n_draws * n_samples, noise, n_threads)
    return Restored.of_sums(sums.weight, sums.first, sums.second, sums.informed.view(bool))


class _Sums:
    """The sums over the patches of every pixel."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.weight, self.first, self.second = (np.zeros(shape) for _ in range(3))
        self.informed = np.zeros(shape, np.uint8)

    def add(
        self,
        rows: PatchRows,
        strip: Strip,
        found: dict[str, NDArray[Any]],
        n_predictions: int,
        noise: float,
        n_threads: int,
    ) -> None:
        """Add the patches of a strip, given their predictions and the noise that their weights allow for."""
        fold = getattr(_kernels, f"fold_patches_{found['mean'].dtype}")
        fold(
            y=strip.y,
            x=rows.x,
            patch_height=rows.size[0],
            patch_width=rows.size[1],
            **found,
            n_predictions=n_predictions,
            noise=noise,
            empty_weight=EMPTY_WEIGHT,
            weight=self.weight[strip.slice],
            first=self.first[strip.slice],
            second=self.second[strip.slice],
            any_informed=self.informed[strip.slice],
            n_threads=n_threads,
        )


def _picture(rows: PatchRows, dtype: str) -> dict[str, NDArray[Any] | None]:
    """Return the pixels of a picture, and which of them are observed, as arguments of the kernels."""
    observed = rows.picture_observed
    # The kernels expect zeros at missing pixels.
    values = np.where(observed, rows.picture_values, 0.0)
    return {
        "values": np.ascontiguousarray(values, dtype).ravel(),
        "observed": None if observed.all() else observed.view(np.uint8).ravel(),
        "offsets": rows.offsets,
    }
