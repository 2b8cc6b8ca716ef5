"""Models of frames that begin anew with another scene."""

from __future__ import annotations

from bpfa.estimator import BPFA
from bpfa.estimator.kept import anew
from bpfa.images.canvas import Canvas
from bpfa.images.kept import PictureForm
from bpfa.images.scene import FrameSteps
from bpfa.model.posterior import GlobalPosterior

__all__ = ["begun_with", "steps_since"]


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


def steps_since(before: BPFA, after: BPFA) -> FrameSteps:
    """Return what is known of the steps that have led from one model to another.

    Parameters
    ----------
    before, after : BPFA
        The second has gone on from the first.

    Examples
    --------
    >>> import numpy as np
    >>> from bpfa import inpaint
    >>> picture = np.add.outer(np.arange(12.0), np.arange(10.0))
    >>> options = {"patch_size": 4, "n_components": 3, "random_state": 0}
    >>> before = inpaint(picture, picture % 2 == 0, max_steps=5, **options).model
    >>> after = inpaint(picture, picture % 2 == 0, model=before, update=3).model
    >>> len(steps_since(before, after).noise), len(steps_since(before, after).sizes)
    (4, 3)
    """
    n_steps = after.n_steps_ - before.n_steps_
    first = len(after.history_["step"]) - n_steps
    noise = [before.posterior_.noise_std**2, *(after.history_["noise_std"][first:] ** 2).tolist()]
    unit = PictureForm.of_model(after).variance_of_unit
    return FrameSteps([unit * variance for variance in noise], after.history_["step_size"][first:].tolist())
