"""Restore pictures: fill in missing pixels, take out noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bpfa._support.checks import check_integer
from bpfa._support.philox import MAX_SWEEP
from bpfa._support.progress import tracked
from bpfa._support.threads import thread_count
from bpfa.data.patches import PatchRows
from bpfa.estimator import BPFA
from bpfa.fitting.run import Callback
from bpfa.images import defaults
from bpfa.images.canvas import Canvas
from bpfa.images.device import can_restore, restore_on_device
from bpfa.images.restore import STRIP_PATCHES, PatchDraws, restore
from bpfa.images.result import ImageResult
from bpfa.inference.algorithms import ALGORITHMS, Algorithm
from bpfa.model.priors import Priors

__all__ = ["denoise", "inpaint"]

# Numbers in a patch beyond which a fit would take hours and the memory of a large machine.
MAX_COLUMNS = 16_384


def inpaint(
    image: Any,
    mask: Any = None,
    *,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    patch_size: int | tuple[int, int] | None = None,
    stride: int | None = None,
    n_components: int | None = None,
    algorithm: str = "gibbs-ssvi",
    features: str = defaults.FEATURES,
    priors: Priors | None = None,
    init: str | None = None,
    dropout: float | None = None,
    max_epochs: float | None = None,
    max_steps: int | None = None,
    max_time: float | None = None,
    n_draws: int = defaults.N_DRAWS,
    random_state: Any = None,
    device: str = "auto",
    n_jobs: int | None = None,
    verbose: int = 0,
    callbacks: Sequence[Callback] = (),
) -> ImageResult:
    """Fill in the missing pixels of a picture; observed pixels stay as they are.

    Where observed pixels are noisy, `denoise` fills in and takes the noise out of the others.

    Parameters
    ----------
    image : array-like of integers or floating-point numbers
        Height x width, and more axes as named below. NaN is missing, and so is what a masked array masks.
    mask : boolean array-like, optional
        True where a pixel is missing, of the shape of the image, or of its shape without channels.
    channel_axis : int, optional
        The axis of colours, detectors or energies. Channels are modelled together: a patch has all of them.
    stack_axis : int, optional
        The axis of the slices of a stack. One model is learned from all, and each is restored by it.
    patch_size : int or pair of int, optional
        Height and width of a patch. By default wide enough that 50 of its pixels are observed, from 8 to 16;
        less where a patch would have more than 768 numbers as there are many channels, but so that 4 of its
        pixels are observed.
    stride : int, optional
        Pixels from one patch that is restored to the next; by default 1, and 2 for patches of 12 pixels or
        more. The model learns from all patches.
    n_components : int, optional
        Largest number of features; 256 by default.
    algorithm, features, priors : optional
        As in `BPFA`.
    init : str, optional
        Where the features start, as in `BPFA`; by default they are patches of the picture ("data"), and for
        `denoise` what patches have in common ("common"), if they have no more than 2048 numbers.
    dropout : float, optional
        As in `BPFA`; by default a tenth where less than a third of the pixels is observed, and nothing
        elsewhere or for other algorithms than "gibbs-ssvi".
    max_epochs, max_steps, max_time : optional
        Limits of the training, of which the first that is reached ends it, as in `BPFA`; 2000 steps by
        default, 500 where less than a third of the pixels is observed. The restoration after it takes its own
        time, about as much for a megapixel.
    n_draws : int
        Draws from the posterior behind the restored picture.
    random_state : int, RandomState or None
        The same seed gives the same picture, for any number of threads.
    device, n_jobs : optional
        As in `BPFA`.
    verbose : int
        1 shows progress in terminals and notebooks.
    callbacks : sequence of callables
        As in `BPFA.fit`.

    Returns
    -------
    ImageResult
        The picture has the type of what came in; integers are rounded and kept in the range of their type,
        floating-point numbers are not clipped. `std` is the standard deviation of the pixel's true value: of
        the mixture of what all patches over it say, each weighted by its certainty. It is 0 where a pixel is
        observed.

    Examples
    --------
    >>> from bpfa.images import inpaint
    >>> picture = np.add.outer(np.arange(20.0), np.arange(16.0))
    >>> missing = np.random.default_rng(0).random(picture.shape) < 0.3
    >>> result = inpaint(picture, missing, patch_size=4, n_components=8, max_steps=60, random_state=0)
    >>> bool(np.abs(result.image - picture).max() < 2), result.image.dtype
    (True, dtype('float64'))
    """
    canvas = Canvas.of(image, mask, channel_axis=channel_axis, stack_axis=stack_axis)
    if canvas.observed.all():
        raise ValueError("mask: no pixel is missing; expected a mask or NaN, or `denoise` for a noisy image")
    result = _restored(
        canvas,
        patch_size,
        stride,
        n_draws,
        callbacks,
        noisy=False,
        n_components=n_components,
        algorithm=algorithm,
        features=features,
        priors=priors,
        init=init,
        dropout=dropout,
        max_epochs=max_epochs,
        max_steps=max_steps,
        max_time=max_time,
        random_state=random_state,
        device=device,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    missing = result.missing
    return replace(
        result,
        image=np.where(missing, result.image, np.asarray(image)),
        std=np.where(missing, result.std, result.std.dtype.type(0)),
    )


def denoise(
    image: Any,
    mask: Any = None,
    *,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    patch_size: int | tuple[int, int] | None = None,
    stride: int | None = None,
    n_components: int | None = None,
    algorithm: str = "gibbs-ssvi",
    features: str = defaults.FEATURES,
    priors: Priors | None = None,
    init: str | None = None,
    dropout: float | None = None,
    max_epochs: float | None = None,
    max_steps: int | None = None,
    max_time: float | None = None,
    n_draws: int = defaults.N_DRAWS,
    random_state: Any = None,
    device: str = "auto",
    n_jobs: int | None = None,
    verbose: int = 0,
    callbacks: Sequence[Callback] = (),
) -> ImageResult:
    """Take the noise out of a picture, and fill in its missing pixels. The noise level is learned.

    Parameters
    ----------
    image : array-like of integers or floating-point numbers
        As in `inpaint`, and so are all other parameters; nothing need be missing.
    mask : boolean array-like, optional
        True where a pixel is missing.
    channel_axis, stack_axis, patch_size, stride, n_components, algorithm, features, priors : optional
    init, dropout, max_epochs, max_steps, max_time, n_draws, random_state, device, n_jobs : optional
    verbose, callbacks : optional

    Returns
    -------
    ImageResult
        As from `inpaint`, but with every pixel estimated, observed ones too; `std` is the standard deviation
        of the pixel's value without noise.

    Examples
    --------
    >>> from bpfa.images import denoise
    >>> picture = np.add.outer(np.arange(24.0), np.arange(20.0))
    >>> noisy = picture + np.random.default_rng(0).normal(size=picture.shape)
    >>> result = denoise(noisy, patch_size=4, n_components=8, max_steps=60, random_state=0)
    >>> bool(np.std(result.image - picture) < np.std(noisy - picture)), 0.5 < result.noise_std < 1.5
    (True, True)
    """
    canvas = Canvas.of(image, mask, channel_axis=channel_axis, stack_axis=stack_axis)
    return _restored(
        canvas,
        patch_size,
        stride,
        n_draws,
        callbacks,
        noisy=True,
        n_components=n_components,
        algorithm=algorithm,
        features=features,
        priors=priors,
        init=init,
        dropout=dropout,
        max_epochs=max_epochs,
        max_steps=max_steps,
        max_time=max_time,
        random_state=random_state,
        device=device,
        n_jobs=n_jobs,
        verbose=verbose,
    )


def _restored(
    canvas: Canvas,
    patch_size: int | tuple[int, int] | None,
    stride: int | None,
    n_draws: int,
    callbacks: Sequence[Callback],
    *,
    noisy: bool,
    verbose: int,
    **parameters: Any,
) -> ImageResult:
    """Fit a model to the patches and restore every pixel; the parameters are those of `BPFA`."""
    # All that can be wrong is found before the fit, not after it.
    n_draws = check_integer("n_draws", n_draws, low=2, high=MAX_SWEEP // 2)
    size = _patch_size(patch_size, canvas)
    stride = defaults.default_stride(size) if stride is None else stride
    check_integer("stride", stride, low=1, high=min(size))
    # Every patch to learn from, which costs nothing; only the restoration goes by strides.
    rows = PatchRows(canvas.values, canvas.observed, size)
    if parameters["n_components"] is None:
        parameters["n_components"] = min(rows.n_rows, defaults.N_COMPONENTS)
    observed = float(canvas.observed.mean())
    if all(parameters[name] is None for name in ("max_epochs", "max_steps", "max_time")):
        parameters["max_steps"] = defaults.default_steps(observed)
    if parameters["init"] is None:
        parameters["init"] = defaults.default_init(rows.n_columns, noisy=noisy)
    if parameters["dropout"] is None:
        drops = parameters["algorithm"] == "gibbs-ssvi"
        parameters["dropout"] = defaults.default_dropout(observed) if drops else 0.0
    model = BPFA(
        batch_size=min(rows.n_rows, defaults.BATCH_SIZE),
        step_delay=defaults.STEP_DELAY,
        step_decay=defaults.STEP_DECAY,
        standardize=False,
        noise="shared",
        verbose=verbose,
        **parameters,
    ).fit(rows, callbacks=callbacks)
    stream = model.settings_.stream.child("restoration")
    algorithm = _patch_algorithm(model)
    rows = PatchRows(canvas.values, canvas.observed, size, stride)
    posterior = model.posterior_
    if can_restore(posterior, algorithm):
        restored = restore_on_device(rows, posterior, algorithm, n_draws=n_draws, stream=stream)
    else:
        draws = PatchDraws(model.posterior_, algorithm, n_draws=n_draws, stream=stream)
        strips = tracked(rows.strips(STRIP_PATCHES), "restoring", shown=bool(verbose))
        # One thread is enough to feed a GPU.
        n_threads = thread_count(model.n_jobs) if model.settings_.device == "cpu" else 1
        restored = restore(rows, draws, strips, n_threads=n_threads)
    noise_std = model.posterior_.noise_std * canvas.scale
    return ImageResult(
        image=canvas.image(restored.mean),
        std=canvas.deviation(restored.std),
        missing=canvas.missing,
        from_prior=canvas.folded(~restored.informed),
        noise_std=noise_std if canvas.has_channels else float(noise_std[0]),
        model=model,
    )


def _patch_size(patch_size: Any, canvas: Canvas) -> tuple[int, int]:
    """Return height and width of a patch that fits into the picture and is of a size that can be fitted."""
    _, rows, columns, n_channels = canvas.values.shape
    if patch_size is None:
        patch_size = defaults.default_patch_size(rows, columns, n_channels, canvas.observed.mean())
    pair = tuple(patch_size) if isinstance(patch_size, Sequence) else (patch_size, patch_size)
    if len(pair) != 2:
        raise ValueError(f"patch_size={patch_size}: expected an integer, or height and width")
    height, width = (check_integer("patch_size", size, low=1) for size in pair)
    if height > rows or width > columns:
        raise ValueError(
            f"patch_size={patch_size}: the image is {rows} x {columns} pixels, smaller than a patch; "
            "expected a smaller patch_size"
        )
    if (n_columns := height * width * n_channels) > MAX_COLUMNS:
        raise ValueError(
            f"patch_size={patch_size}: {height} x {width} pixels of {n_channels} channels are {n_columns} "
            f"numbers in a patch; expected at most {MAX_COLUMNS}: a smaller patch_size, or channels summed"
        )
    return height, width


def _patch_algorithm(model: BPFA) -> Algorithm:
    """Return the algorithm of a model, on one thread, with chains long enough to tell of single patches."""
    settings = model.settings_
    if ALGORITHMS[settings.algorithm].method == "Gibbs":
        settings = replace(settings, options={**settings.options, "burn_in": defaults.BURN_IN})
    return settings.chosen(n_jobs=1)
