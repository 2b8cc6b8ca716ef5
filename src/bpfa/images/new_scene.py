"""Models of frames that begin anew with another scene."""

from __future__ import annotations

from bpfa.estimator import BPFA
from bpfa.estimator.kept import anew
from bpfa.images.canvas import Canvas
from bpfa.images.kept import PictureForm
from bpfa.model.posterior import GlobalPosterior

__all__ = ["begun_with"]


def begun_with(canvas: Canvas, model: BPFA) -> BPFA | None:
    """Return a model that begins anew with a frame, or None if this one cannot.

    The new model is in the units of the frame: in those of a much brighter or darker scene, chains take more
    sweeps than a frame has, because every patch must first come to the mean of the scene.

    Parameters
    ----------
    canvas : Canvas
        The frame, in its own units.
    model : BPFA
        The model of the frames before, which stays as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from bpfa import inpaint
    >>> picture = np.add.outer(np.arange(12.0), np.arange(10.0))
    >>> model = inpaint(picture, picture % 2 == 0, patch_size=4, n_components=3, max_steps=5).model
    >>> begun = begun_with(Canvas.of(5 * picture), model)
    >>> begun.n_steps_, PictureForm.of_model(begun).mean.tolist(), begun_with(Canvas.of(0 * picture), model)
    (0, [50.0], None)
    """
    form = PictureForm.of_model(model)
    canvas = canvas.stabilised(form.stabiliser)
    # A constant frame has no scale and no features.
    if not canvas.values.any() or not isinstance(model.posterior_, GlobalPosterior):
        return None
    return PictureForm.of(canvas, form.patch_size).noted_in(anew(model, canvas.patches(form.patch_size)))
