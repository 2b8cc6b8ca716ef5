"""The units in which a picture is modelled: those of its noise if it has counts, or those of a kept model."""

from __future__ import annotations

from bpfa.images.canvas import Canvas
from bpfa.images.kept import PictureForm
from bpfa.images.noise import choose_noise
from bpfa.images.options import RestorationOptions

__all__ = ["in_units_of_the_model"]


def in_units_of_the_model(canvas: Canvas, options: RestorationOptions) -> Canvas:
    """Bring the noise of counts to the same variance everywhere, and the pixels to the units of a kept model.

    If there is neither, the picture stays as it is.
    """
    if options.model is not None:
        return PictureForm.of_model(options.model).canvas(canvas)
    if options.noise_model == "gaussian" and options.gain is None and options.read_noise is None:
        return canvas
    noise = choose_noise(
        canvas.pixels(), canvas.observed, options.noise_model, options.gain, options.read_noise
    )
    return canvas.stabilised(noise)
