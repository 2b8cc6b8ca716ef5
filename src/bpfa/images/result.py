"""What a restoration returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.estimator import BPFA

__all__ = ["ImageResult"]


@dataclass(frozen=True)
class ImageResult:
    """A restored picture, how certain it is, and the model behind it."""

    image: NDArray[Any] = field(repr=False)
    """Of the shape and type of the picture that came in."""
    std: NDArray[Any] = field(repr=False)
    """Standard deviation of every pixel, in the units of the picture."""
    missing: NDArray[np.bool_] = field(repr=False)
    """Where the picture was missing."""
    from_prior: NDArray[np.bool_] = field(repr=False)
    """Where no patch over a pixel has an observed pixel: what stands there is about the mean of the picture,
    and its deviation that of the prior."""
    noise_std: float | Array
    """The noise that was learned, in the units of the picture; one for each channel where there are channels.
    What the features do not explain counts as noise too, so it is not zero for a clean picture."""
    model: BPFA
    """Fitted to the patches in units of the deviation of each channel."""

    @property
    def history(self) -> dict[str, NDArray[Any]]:
        """What the fit was like, one entry a step: see `BPFA`."""
        history: dict[str, NDArray[Any]] = self.model.history_
        return history
