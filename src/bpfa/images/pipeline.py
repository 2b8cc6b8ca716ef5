"""Restore pictures: fill in missing pixels and remove noise.

The stages follow one another in one direction: the options are checked (`RestorationOptions`), the picture is
standardised (`Canvas`), the noise of counts is brought to the same variance everywhere (`choose_noise`), the
restoration is planned (`plan_restoration`), a model is fitted to the patches (`fit_patches`), every pixel is
restored by the model (`restore_from_model`), groups of like patches refine the picture (`refine_by_groups`),
and the result is brought back to the form of the original picture (`image_result`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.threads import thread_count
from bpfa.backends.registry import backend_of
from bpfa.cluster.collections import is_collection
from bpfa.data.overlap import Restored
from bpfa.estimator import BPFA
from bpfa.estimator.kept import continued, on_device
from bpfa.fitting.run import Callback
from bpfa.images import defaults
from bpfa.images.canvas import Canvas
from bpfa.images.finishing import image_result
from bpfa.images.groups import Refined, refine
from bpfa.images.kept import PictureForm
from bpfa.images.lazy import restored_lazily
from bpfa.images.noise import channel_noise, warn_of_correlation
from bpfa.images.options import OptionArguments, RestorationOptions, takes_options
from bpfa.images.plan import RestorationPlan, plan_restoration
from bpfa.images.restore import patch_algorithm, restore_canvas
from bpfa.images.result import ImageResult
from bpfa.images.signals import is_signal, mask_array, restore_signal
from bpfa.images.units import in_units_of_the_model

__all__ = ["denoise", "fit_patches", "image_result", "inpaint", "refine_by_groups", "restore_from_model"]


@takes_options
def inpaint(image: Any, mask: Any = None, **options: Unpack[OptionArguments]) -> ImageResult:
    """Fill in the missing pixels of a picture; observed pixels stay as they are.

    If the observed pixels are noisy, use `denoise`, which fills in the missing pixels as well.

    Parameters
    ----------
    image : array-like of integers, floating-point numbers or booleans, or signal of HyperSpy
        Height x width, with further axes as named below. A Dask array with slices (`stack_axis`) is learned
        from and restored on the workers of the current client, and the result is lazy. NaN is a missing
        pixel, and so is every entry that a masked array masks. Booleans are treated as zeros and ones. A
        signal of HyperSpy, lazy or not, knows its axes: it is an image, a stack of images, or a spectrum
        image or 4D scan whose spectra or patterns are channels, in components if there are more than 64.
    mask : array-like of booleans, or of 0 and one other integer, or a scan, optional
        True, or not 0, where a pixel is missing: masks of 0 and 255, as image programs write them, can be
        used as they are. It has the shape of the image, or that shape without the channels. It can also be a
        scan of `bpfa.images.masks`, or the row and column of every pixel that was scanned, an array of
        integers of shape (n, 2); all other pixels are then missing, in all slices and channels. It may be a
        signal of HyperSpy.
    channel_axis : int, optional
        The axis of the colours, detectors or energies. Channels are modelled together: a patch contains all
        of them.
    stack_axis : int, optional
        The axis of the slices of a stack. One model is learned from all slices and restores each of them.
    patch_size : int or pair of int, optional
        Height and width of a patch. By default a patch is 8 to 16 pixels wide, and so wide that about 50 of
        its pixels are observed. If the picture has so many channels that a patch would have more than 768
        values, patches are narrower, but still so wide that about 4 of their pixels are observed.
    stride : int, optional
        Distance in pixels between the patches that are restored. By default it is 1, or 2 for patches of at
        least 12 pixels. The model learns from all patches.
    n_components : int, optional
        Largest number of features; by default 256.
    algorithm, features, priors : optional
        As in `BPFA`. By default the features are "factorised".
    init : str, optional
        How the features are initialised, as in `BPFA`. By default they start as patches of the picture
        ("data"); in `denoise` they start from what the patches have in common ("common") if a patch has at
        most 2048 values and enough pixels are observed to tell.
    dropout : float, optional
        As in `BPFA`. By default it is a tenth if the algorithm is "gibbs-ssvi" and less than a third of the
        pixels is observed, and 0 otherwise.
    max_epochs, max_steps, max_time : optional
        Limits of the training, as in `BPFA`; the training ends at the first one that it reaches. The default
        is 2000 steps, or 500 if less than a third of the pixels is observed. The limits do not include the
        restoration that follows, which takes about as long as the training for a picture of a megapixel.
    n_draws : int
        Number of draws from the posterior behind the restored picture.
    patch_samples, patch_burn_in : int
        How many samples the chain of a patch gives under each of these draws, and how many sweeps it makes
        before the first of them. Few sweeps and draws are enough for a first look, and take less time.
    refine : str or None
        "groups", the default, refines the picture that the dictionary restores by groups of like patches.
        Some observed pixels are hidden to decide for how many rounds, and with which weight. In noisy
        pictures a noisier copy of the picture decides whether groups keep their weight. None, or "none",
        returns the picture of the dictionary.
    noise_model : str
        "gaussian", the default: the noise has the same variance everywhere, which is learned. "poisson":
        pixels are counts of photons or electrons times a gain, which is learned. "poisson-gaussian": in
        addition they have Gaussian read noise, which is learned as well. "auto" decides between the three by
        whether the variance of flat parts of the picture grows with their mean; it expects that the picture
        is noisy, since it cannot tell fine texture from noise. With the noise of counts,
        `inpaint` takes observed pixels to be noisy, and predicts missing pixels without noise.
    gain, read_noise : float, optional
        Units of the picture per count, and the standard deviation of the read noise in units of the picture.
        What is given is not learned.
    model : BPFA, optional
        The model of an earlier result, `result.model`, for example loaded from a file: the picture is
        restored by its dictionary, without training. It must be a picture of the same kind: with as many
        channels, and in the same units. The model has decided the size of patches and all that concerns
        training and noise.
    update : int
        Number of training steps in which a kept model goes on learning from the picture, before it restores
        the picture. `result.model` is the new model; the given one stays as it is.
    forgetting : float
        Least size of these steps. The steps of a long training are small, which is right for more pictures
        of the same kind. With 0.05, for example, what was learned more than about 20 steps ago is forgotten,
        so that the model follows a scene that changes.
    random_state : int, RandomState or None
        The same seed gives the same picture, for any number of threads. A kept model has its own seed.
    device, n_jobs : optional
        As in `BPFA`.
    verbose : int
        1 shows progress in terminals and notebooks.
    callbacks : sequence of callables
        As in `BPFA.fit`.

    Returns
    -------
    ImageResult
        The restored picture has the type of the original; integers are rounded and clipped to the range of
        their type, and floating-point numbers are not clipped. A boolean picture is restored to booleans:
        True where the restored value is above 1/2. For the values themselves, pass `image.astype(float)`.
        `std` is the standard deviation of a pixel's true value: that of the mixture of the predictions of all
        patches over the pixel, weighted by their certainty. It is 0 where a pixel is observed. If the image
        is a signal of HyperSpy, `image` and `std` are signals of the same class, with its axes and metadata,
        and lazy if it is lazy.

    See Also
    --------
    denoise : Estimate every pixel, the observed ones included.
    bpfa.report.image_report : A page about the result.

    References
    ----------
    .. [1] M. Zhou, H. Chen, J. Paisley, L. Ren, L. Li, Z. Xing, D. Dunson, G. Sapiro and L. Carin,
       "Nonparametric Bayesian Dictionary Learning for Analysis of Noisy and Incomplete Images", IEEE
       Transactions on Image Processing 21 (2012).

    Examples
    --------
    >>> from bpfa.images import inpaint
    >>> picture = np.add.outer(np.arange(20.0), np.arange(16.0))
    >>> missing = np.random.default_rng(0).random(picture.shape) < 0.3
    >>> result = inpaint(picture, missing, patch_size=4, n_components=8, max_steps=60, random_state=0)
    >>> bool(np.abs(result.image - picture).max() < 2), result.image.dtype
    (True, dtype('float64'))
    """
    chosen = RestorationOptions.of("inpaint", options)
    if is_signal(image):
        return restore_signal(inpaint, image, mask, dict(options), keep_observed=True)
    if is_collection(image):
        return restored_lazily(inpaint, image, mask, chosen)
    canvas = Canvas.of(image, mask_array(mask), chosen.channel_axis, chosen.stack_axis)
    if canvas.observed.all():
        raise ValueError("mask: no pixel is missing; expected a mask or NaN, or `denoise` for a noisy image")
    canvas = in_units_of_the_model(canvas, chosen)
    result = _restored(canvas, chosen, noisy=canvas.stabiliser is not None)
    return replace(
        result,
        image=np.where(result.missing, result.image, np.asarray(image)),
        std=np.where(result.missing, result.std, result.std.dtype.type(0)),
        dictionary_image=(
            None
            if result.dictionary_image is None
            else np.where(result.missing, result.dictionary_image, np.asarray(image))
        ),
    )


@takes_options
def denoise(image: Any, mask: Any = None, **options: Unpack[OptionArguments]) -> ImageResult:
    """Remove the noise from a picture and fill in its missing pixels. The noise level is learned.

    The noise is assumed to be Gaussian with the same variance everywhere, unless `noise_model` says
    otherwise, and independent of that of neighbouring pixels. A `CorrelatedNoiseWarning` says if neighbouring
    pixels seem to share their noise.

    Parameters
    ----------
    image : array-like of integers, floating-point numbers or booleans
        As in `inpaint`, but no pixel needs to be missing.
    mask : array-like of booleans, or of 0 and one other integer, or a scan, optional
        As in `inpaint`.
    **options
        All further parameters are those of `inpaint`.

    Returns
    -------
    ImageResult
        As from `inpaint`, but every pixel is estimated, including the observed ones. `std` is the standard
        deviation of a pixel's value without noise.

    See Also
    --------
    inpaint : Fill in missing pixels, and leave the others as they are.

    References
    ----------
    .. [1] M. Zhou, H. Chen, J. Paisley, L. Ren, L. Li, Z. Xing, D. Dunson, G. Sapiro and L. Carin,
       "Nonparametric Bayesian Dictionary Learning for Analysis of Noisy and Incomplete Images", IEEE
       Transactions on Image Processing 21 (2012).

    Examples
    --------
    >>> from bpfa.images import denoise
    >>> picture = np.add.outer(np.arange(24.0), np.arange(20.0))
    >>> noisy = picture + np.random.default_rng(0).normal(size=picture.shape)
    >>> result = denoise(noisy, patch_size=4, n_components=8, max_steps=60, random_state=0)
    >>> bool(np.std(result.image - picture) < np.std(noisy - picture)), 0.5 < result.noise_std < 1.5
    (True, True)
    """
    chosen = RestorationOptions.of("denoise", options)
    if is_signal(image):
        return restore_signal(denoise, image, mask, dict(options), keep_observed=False)
    if is_collection(image):
        return restored_lazily(denoise, image, mask, chosen)
    canvas = Canvas.of(image, mask_array(mask), chosen.channel_axis, chosen.stack_axis)
    canvas = in_units_of_the_model(canvas, chosen)
    warn_of_correlation(canvas.values, canvas.observed)
    return _restored(canvas, chosen, noisy=True)


def _restored(canvas: Canvas, options: RestorationOptions, *, noisy: bool) -> ImageResult:
    """Plan the restoration, fit a model to the patches, and restore every pixel."""
    plan = plan_restoration(canvas, options, noisy=noisy)
    model = _model_of_patches(canvas, plan, options)
    restored = restore_from_model(canvas, plan, model)
    refined = refine_by_groups(canvas, plan, model, restored)
    return image_result(canvas, plan, model, restored, refined)


def _model_of_patches(canvas: Canvas, plan: RestorationPlan, options: RestorationOptions) -> BPFA:
    """Fit a model to the patches of a picture, or take the kept one and train it further if asked to."""
    if options.model is None:
        return fit_patches(canvas, plan, callbacks=options.callbacks)
    model = on_device(options.model, options.device, n_jobs=options.n_jobs, verbose=options.verbose)
    if not options.update:
        return model
    return continued(
        model,
        canvas.patches(plan.patch_size),
        options.update,
        least_step=options.forgetting,
        callbacks=options.callbacks,
    )


def fit_patches(canvas: Canvas, plan: RestorationPlan, callbacks: Sequence[Callback] = ()) -> BPFA:
    """Return a model that is fitted to all patches of a picture.

    Parameters
    ----------
    canvas : Canvas
    plan : RestorationPlan
    callbacks : sequence of callables
        As in `BPFA.fit`.

    Examples
    --------
    >>> canvas = Canvas.of(np.add.outer(np.arange(12.0), np.arange(10.0)))
    >>> options = RestorationOptions(patch_size=4, n_components=3, max_steps=5, random_state=0)
    >>> model = fit_patches(canvas, plan_restoration(canvas, options, noisy=True))
    >>> model.components_.shape
    (3, 16)
    """
    with warnings.catch_warnings():
        # With very few observed pixels, some positions in a patch are never observed. That is a matter of the
        # patches, of which users of pictures need not know: `from_prior` tells them where nothing is known.
        warnings.filterwarnings("ignore", "X: no entry of column")
        # A patch at every pixel: the stride of the plan is only for the restoration.
        model = BPFA(**plan.model_parameters).fit(canvas.patches(plan.patch_size), callbacks=callbacks)
    return PictureForm.of(canvas, plan.patch_size).noted_in(model)


def restore_from_model(canvas: Canvas, plan: RestorationPlan, model: BPFA) -> Restored:
    """Restore every pixel of a picture by a model that is fitted to its patches.

    Parameters
    ----------
    canvas : Canvas
    plan : RestorationPlan
    model : BPFA
        As returned by `fit_patches`.

    Examples
    --------
    >>> canvas = Canvas.of(np.add.outer(np.arange(12.0), np.arange(10.0)))
    >>> options = RestorationOptions(patch_size=4, n_components=3, max_steps=5, random_state=0)
    >>> plan = plan_restoration(canvas, options, noisy=True)
    >>> restore_from_model(canvas, plan, fit_patches(canvas, plan)).mean.shape
    (1, 12, 10, 1)
    """
    algorithm = patch_algorithm(model, plan.burn_in)
    return restore_canvas(
        canvas,
        plan.patch_size,
        plan.stride,
        model.posterior_,
        algorithm,
        n_draws=plan.n_draws,
        n_samples=plan.n_samples,
        stream=model.settings_.stream.child("restoration"),
        # One thread is enough to keep a GPU busy.
        n_threads=thread_count(model.n_jobs) if algorithm.backend.uses_threads else 1,
        verbose=model.verbose,
    )


def refine_by_groups(
    canvas: Canvas, plan: RestorationPlan, model: BPFA, restored: Restored
) -> Refined | None:
    """Refine what the dictionary has restored by groups of like patches.

    Returns None if the plan has no such stage. Ctrl-C ends the stage early, with the best picture so far and
    a warning.

    Parameters
    ----------
    canvas : Canvas
    plan : RestorationPlan
    model : BPFA
        As returned by `fit_patches`.
    restored : Restored
        As returned by `restore_from_model`.

    Examples
    --------
    >>> canvas = Canvas.of(np.add.outer(np.arange(12.0), np.arange(10.0)))
    >>> options = RestorationOptions(patch_size=4, n_components=3, max_steps=5, random_state=0)
    >>> plan = plan_restoration(canvas, options, noisy=True)
    >>> model = fit_patches(canvas, plan)
    >>> refined = refine_by_groups(canvas, plan, model, restore_from_model(canvas, plan, model))
    >>> refined.restored.mean.shape, 0 <= refined.weight <= 1
    ((1, 12, 10, 1), True)
    """
    if plan.groups is None:
        return None
    fewer_draws = replace(plan, n_draws=max(2, plan.n_draws // 2))

    def restore(changed: Canvas) -> Restored:
        return restore_from_model(changed, fewer_draws, _relearned(model, changed, plan))

    refined = refine(
        canvas,
        restored,
        _noise_variances(canvas, float(model.posterior_.noise_std) ** 2),
        plan.groups,
        backend_of(model.settings_.device).groups.on(model.settings_.device),
        noisy=plan.noisy,
        restore=restore,
        stream=model.settings_.stream.child("groups"),
        n_threads=thread_count(model.n_jobs),
        verbose=model.verbose,
    )
    if refined.interrupted:
        warnings.warn(
            f"interrupted: the picture is that of {refined.n_rounds} rounds of grouping", stacklevel=2
        )
    return refined


def _noise_variances(canvas: Canvas, learned: float) -> Array:
    """Return the variance of the noise of each channel, given what the dictionary has learned."""
    if canvas.stabiliser is None:
        return channel_noise(canvas.values, canvas.observed, learned)
    # Where there are hardly any counts, stabilised noise is smaller than elsewhere.
    return np.full(canvas.values.shape[3], learned)


def _relearned(model: BPFA, changed: Canvas, plan: RestorationPlan) -> BPFA:
    """Return a dictionary of a noisier picture, which has forgotten the noise of the picture itself."""
    patches = changed.patches(plan.patch_size)
    if not plan.noisy or patches.n_rows < model.settings_.batch_size:
        return model
    # Not more steps than the dictionary was trained for: it must not become better than it.
    n_steps = min(defaults.RELEARNING_STEPS, model.n_steps_)
    return continued(model, patches, n_steps, least_step=defaults.RELEARNING_STEP)
