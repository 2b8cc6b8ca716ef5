"""The last stage of a restoration: the picture in the form of the original."""

from __future__ import annotations

import numpy as np

from bpfa._support.checks import Array
from bpfa.data.overlap import Restored
from bpfa.estimator import BPFA
from bpfa.images.canvas import Canvas
from bpfa.images.groups import Refined
from bpfa.images.plan import RestorationPlan
from bpfa.images.result import ImageResult

__all__ = ["image_result"]


def image_result(
    canvas: Canvas,
    plan: RestorationPlan,
    model: BPFA,
    restored: Restored,
    refined: Refined | None = None,
) -> ImageResult:
    """Return a restored picture in the shape, units and type of the original.

    Parameters
    ----------
    canvas : Canvas
    plan : RestorationPlan
    model : BPFA
    restored : Restored
        What the dictionary has restored.
    refined : Refined, optional
        What groups of like patches have made of it.

    Examples
    --------
    >>> from bpfa.images.options import RestorationOptions
    >>> from bpfa.images.pipeline import fit_patches, restore_from_model
    >>> from bpfa.images.plan import plan_restoration
    >>> canvas = Canvas.of(np.add.outer(np.arange(12), np.arange(10)).astype(np.uint8))
    >>> options = RestorationOptions(patch_size=4, n_components=3, max_steps=5, random_state=0)
    >>> plan = plan_restoration(canvas, options, noisy=True)
    >>> model = fit_patches(canvas, plan)
    >>> result = image_result(canvas, plan, model, restore_from_model(canvas, plan, model))
    >>> result.image.shape, result.image.dtype, result.patch_size
    ((12, 10), dtype('uint8'), (4, 4))
    """
    last, grouped = refined or Refined.nothing(restored), refined is not None and refined.n_rounds > 0
    noise = np.sqrt(last.noise) if grouped and plan.noisy else model.posterior_.noise_std
    noise_std = canvas.noise_std(noise, last.restored.mean)
    counts = canvas.stabiliser

    def by_channel(values: Array) -> float | Array:
        return values if canvas.has_channels else float(values[0])

    return ImageResult(
        image=canvas.image(last.restored.mean, last.restored.std),
        std=canvas.deviation(last.restored.std, last.restored.mean),
        missing=canvas.missing,
        from_prior=canvas.in_picture_shape(~restored.informed),
        noise_std=by_channel(noise_std),
        model=model,
        patch_size=plan.patch_size,
        stage="groups" if grouped else "dictionary",
        n_rounds=last.n_rounds,
        group_weight=last.weight,
        dictionary_image=canvas.image(restored.mean, restored.std) if grouped else None,
        noise_model="gaussian" if counts is None else counts.kind,
        gain=None if counts is None else by_channel(counts.gain),
        read_noise=None if counts is None else by_channel(counts.read_noise),
        groups=last.groups,
    )
