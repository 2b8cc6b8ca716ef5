"""Dictionaries that are kept: the form of the pictures that a model of patches is for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bpfa._support.checks import Array
from bpfa.estimator import BPFA
from bpfa.estimator.kept import with_notes
from bpfa.images.canvas import Canvas
from bpfa.images.noise.stabiliser import Stabiliser
from bpfa.images.options import RestorationOptions

__all__ = ["PictureForm", "notes_of"]

# A picture is in other units than a model if its mean is further than this from that of the model, in
# deviations of the pixels of its pictures, or if the deviation of its own pixels is larger by this factor.
FAR, LARGE = 4.0, 8.0
# Options that a kept model has decided already.
DECIDED = (
    "n_components",
    "algorithm",
    "features",
    "priors",
    "init",
    "dropout",
    "max_epochs",
    "max_steps",
    "max_time",
    "noise_model",
    "gain",
    "read_noise",
)


def notes_of(model: BPFA) -> dict[str, Any]:
    """Return what a model remembers of the pictures that it was fitted to; nothing if there were none.

    Parameters
    ----------
    model : BPFA
    """
    notes = model._outcome.notes if hasattr(model, "_outcome") else None
    return {} if notes is None else notes


@dataclass(frozen=True, eq=False)
class PictureForm:
    """The form of the pictures that a model of patches is for, which is saved with the model.

    Parameters
    ----------
    patch_size : pair of int
        Height and width of a patch.
    mean, scale : array, shape (channels,)
        What is subtracted from the pixels of a channel, and what they are divided by after that.
    stabiliser : Stabiliser or None
        How the noise of counts is brought to the same variance everywhere before that.

    Examples
    --------
    >>> canvas = Canvas.of(np.arange(30.0).reshape(6, 5))
    >>> form = PictureForm.of(canvas, (3, 3))
    >>> PictureForm.from_document(form.document()).patch_size
    (3, 3)
    """

    patch_size: tuple[int, int]
    mean: Array
    scale: Array
    stabiliser: Stabiliser | None = None

    @classmethod
    def of(cls, canvas: Canvas, patch_size: tuple[int, int]) -> PictureForm:
        """Return the form of a picture."""
        return cls(patch_size, canvas.mean, canvas.scale, canvas.stabiliser)

    @classmethod
    def of_model(cls, model: BPFA) -> PictureForm:
        """Return the form of the pictures that a model is for.

        Parameters
        ----------
        model : BPFA
            The model of an `ImageResult`.

        Examples
        --------
        >>> PictureForm.of_model(BPFA(2, max_steps=2).fit(np.random.default_rng(0).normal(size=(20, 3))))
        Traceback (most recent call last):
        ...
        ValueError: model: not a model of patches of a picture; expected the model of an ImageResult
        """
        notes = notes_of(model)
        if "patch_size" not in notes:
            raise ValueError(
                "model: not a model of patches of a picture; expected the model of an ImageResult"
            )
        if "components" in notes:
            raise ValueError(
                f"model: learned from maps of the components of spectra with {notes['components'].shape[1]} "
                "channels; expected the model of a picture like this one"
            )
        return cls.from_document(notes)

    def document(self) -> dict[str, Any]:
        """Return the form as JSON can express it."""
        noise = self.stabiliser
        return {
            "patch_size": list(self.patch_size),
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
            "stabiliser": None
            if noise is None
            else {
                "kind": noise.kind,
                "gain": noise.gain.tolist(),
                "read_noise": noise.read_noise.tolist(),
                "offset": noise.offset.tolist(),
            },
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> PictureForm:
        """Return the form that a document describes."""
        height, width = document["patch_size"]
        noise = document["stabiliser"]
        arrays = {} if noise is None else {n: np.array(noise[n]) for n in ("gain", "read_noise", "offset")}
        return cls(
            (height, width),
            np.array(document["mean"]),
            np.array(document["scale"]),
            None if noise is None else Stabiliser(noise["kind"], **arrays),
        )

    @property
    def variance_of_unit(self) -> float:
        """The variance, in units of the picture, of what has the variance 1 in units of the model.

        It is that of stabilised pixels if there is a stabiliser, and the mean over channels.

        Examples
        --------
        >>> PictureForm((3, 3), np.zeros(2), np.array([1.0, 3.0])).variance_of_unit
        5.0
        """
        return float(np.mean(self.scale**2))

    def noted_in(self, model: BPFA) -> BPFA:
        """Return a copy of a model that remembers this form."""
        return with_notes(model, self.document())

    def check_options(self, options: RestorationOptions) -> None:
        """Refuse options that contradict the model, or that it has decided already."""
        given = options.patch_size
        pair = given if isinstance(given, tuple) else (given, given)
        if given is not None and pair != self.patch_size:
            raise ValueError(
                f"patch_size={given}: the kept model has patches of {self.patch_size[0]} x "
                f"{self.patch_size[1]} pixels; expected this size, or None"
            )
        defaults = {field.name: field.default for field in fields(RestorationOptions)}
        for name in DECIDED:
            if (value := getattr(options, name)) != defaults[name]:
                raise ValueError(
                    f"{name}={value!r}: the kept model has decided this already; expected the default, "
                    f"{defaults[name]!r}"
                )

    def canvas(self, canvas: Canvas) -> Canvas:
        """Return a picture in the units of the model, after checking that it is a picture of this form.

        Parameters
        ----------
        canvas : Canvas
            In its own units.

        Examples
        --------
        >>> first, second = (Canvas.of(np.arange(30.0).reshape(6, 5) + shift) for shift in (0, 3))
        >>> PictureForm.of(first, (3, 3)).canvas(second).mean
        array([14.5])
        """
        _, height, width, n_channels = canvas.values.shape
        if n_channels != len(self.mean):
            raise ValueError(
                f"image: {n_channels} channels; expected {len(self.mean)}, as the pictures of the model have"
            )
        if height < self.patch_size[0] or width < self.patch_size[1]:
            raise ValueError(
                f"image: {height} x {width} pixels; expected at least the size of the patches of the model, "
                f"{self.patch_size[0]} x {self.patch_size[1]}"
            )
        canvas = canvas.stabilised(self.stabiliser)
        # A constant picture has no scale of its own.
        self.check_units(canvas.mean, canvas.scale if canvas.values.any() else np.zeros_like(self.scale))
        return canvas.standardised_by(self.mean, self.scale)

    def check_units(self, mean: Array, std: Array) -> None:
        """Refuse a picture whose pixels have a mean and a standard deviation of quite other units.

        Parameters
        ----------
        mean, std : array, shape (channels,)

        Examples
        --------
        >>> form = PictureForm((3, 3), np.array([100.0]), np.array([20.0]))
        >>> form.check_units(np.array([0.4]), np.array([0.1]))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: image: mean 0.4 and standard deviation 0.1; expected a picture in the units of the ...
        """
        if (np.abs(mean - self.mean) / self.scale > FAR).any() or (std / self.scale > LARGE).any():
            raise ValueError(
                f"image: mean {mean[0]:.4g} and standard deviation {std[0]:.4g}; expected a picture in the "
                f"units of the model, whose pictures have {self.mean[0]:.4g} and {self.scale[0]:.4g}"
            )
