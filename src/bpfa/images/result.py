"""The result of a restoration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.estimator import BPFA
from bpfa.images.groups import FinishedGroups

__all__ = ["ImageResult"]


@dataclass(frozen=True)
class ImageResult:
    """A restored picture, its uncertainty, and the model that restored it.

    See Also
    --------
    bpfa.inpaint : Fill in missing pixels.
    bpfa.denoise : Remove noise.
    bpfa.report.image_report : A page about a restored picture.

    Examples
    --------
    >>> from bpfa import denoise
    >>> picture = np.add.outer(np.arange(12.0), np.arange(10.0))
    >>> result = denoise(picture, patch_size=3, n_components=4, max_steps=5, random_state=0)
    >>> result.image.shape, result.std.shape, len(result.history["step"]), result.patch_size
    ((12, 10), (12, 10), 5, (3, 3))
    """

    image: NDArray[Any] = field(repr=False)
    """The restored picture, with the shape and type of the original."""
    std: NDArray[Any] = field(repr=False)
    """Standard deviation of every pixel, in the units of the picture."""
    missing: NDArray[np.bool_] = field(repr=False)
    """True where a pixel of the original was missing."""
    from_prior: NDArray[np.bool_] = field(repr=False)
    """True where no patch over a pixel has any observed pixel. The restored value is then close to the mean
    of the picture, and its standard deviation is that of the prior."""
    noise_std: float | Array
    """Learned standard deviation of the noise, in the units of the picture; an array with one entry for each
    channel if the picture has channels. It includes whatever the features do not explain, so it is not 0 for
    a clean picture. If the variance of the noise grows with the signal, this is the root of its mean."""
    model: BPFA
    """The model that was fitted to the patches, after each channel had been standardised, and before that
    stabilised, if `noise_model` is not "gaussian"."""
    patch_size: tuple[int, int]
    """Height and width of a patch."""
    stage: str = "dictionary"
    """Stage that the picture comes from: "groups" if the dictionary's picture was refined by groups of like
    patches, and "dictionary" otherwise."""
    n_rounds: int = 0
    """Number of rounds of grouping behind the picture."""
    group_weight: float = 0.0
    """Weight of the groups in the picture; that of the dictionary is 1 minus this."""
    dictionary_image: NDArray[Any] | None = field(default=None, repr=False)
    """What the dictionary restored before groups refined it; None if it is the picture itself."""
    noise_model: str = "gaussian"
    """Noise that was assumed: "gaussian", "poisson" or "poisson-gaussian", which "auto" has chosen from."""
    gain: float | Array | None = None
    """Units of the picture per count, given or learned; an array with one entry for each channel if the
    picture has channels, and None for Gaussian noise."""
    read_noise: float | Array | None = None
    """Standard deviation of the Gaussian part of the noise of counts, in the form of `gain`."""
    groups: FinishedGroups | None = field(default=None, repr=False)
    """The groups of the last round, whose features the report shows; None if the picture is the
    dictionary's."""

    @property
    def history(self) -> dict[str, NDArray[Any]]:
        """Course of the fit, with one entry for each training step; see `BPFA.history_`."""
        history: dict[str, NDArray[Any]] = self.model.history_
        return history
