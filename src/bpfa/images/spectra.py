"""Spectra, or diffraction patterns, at all positions of a scan, described by the maps of a few components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.optional import library

__all__ = ["Spectra"]

# Most components, how many more are computed, and how often the subspace is iterated.
MOST_COMPONENTS, MORE, ITERATIONS = 16, 8, 4


@dataclass(frozen=True, eq=False)
class Spectra:
    """Spectra as a mean spectrum plus components, each with a map of its weights over the scan.

    Parameters
    ----------
    maps : array, shape (*positions, components)
        0 where a spectrum is missing.
    mean : array, shape (channels,)
    components : array, shape (components, channels)
        In the units of the data.

    Examples
    --------
    >>> y, x, energy = np.mgrid[:6, :7, :90]
    >>> data = x * np.exp(-((energy - 30) / 9.0) ** 2) + 0.1 * y
    >>> spectra = Spectra.of(data, np.zeros((6, 7), dtype=bool), n_axes=2)
    >>> spectra.maps.shape[:2], bool(np.abs(spectra.restored(spectra.maps) - data).max() < 1e-6)
    ((6, 7), True)
    """

    maps: Array
    mean: Array
    components: Array
    unit: Array
    """What each channel was divided by before the components were found."""
    shape: tuple[int, ...]
    """Shape of the data."""
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, data: Any, missing: NDArray[np.bool_], *, n_axes: int, counts: bool = False) -> Spectra:
        """Find the components of the spectra that are there.

        The spectra are read one line of the scan at a time, several times, so that lazy data need not fit
        into memory. As many components are kept as stand out from white noise.

        Parameters
        ----------
        data : array, or lazy array
        missing : boolean array of the shape of the scan
        n_axes : int
            How many axes of the data are positions; the others are channels.
        counts : bool
            Whether the noise is that of counts. Channels are then divided by the root of their mean, after
            which the noise of all of them is about equally large (Keenan and Kotula, 2004).
        """
        lines = _Lines(data, ~missing, n_axes)
        mean = lines.mean()
        unit = (
            np.sqrt(np.maximum(mean, 1e-12 * max(float(mean.max()), 1e-300)))
            if counts
            else np.ones_like(mean)
        )
        found, variance, total = lines.subspace(mean, unit)
        kept = _standing_out(variance, total, lines.n, len(mean))
        components = (found[:, :kept] * unit[:, None]).T
        maps = lines.maps(mean, components, unit)
        return cls(maps, mean, components, unit, data.shape, np.dtype(data.dtype))

    @classmethod
    def by_kept(
        cls, data: Any, missing: NDArray[np.bool_], *, n_axes: int, notes: Mapping[str, Any]
    ) -> Spectra:
        """Describe spectra by the components of others, which a model remembers.

        Parameters
        ----------
        data, missing, n_axes
            As in `of`.
        notes : mapping
            Those of the model, with what `notes` returned.

        Examples
        --------
        >>> data, missing = np.random.default_rng(0).normal(size=(6, 7, 90)), np.zeros((6, 7), dtype=bool)
        >>> first = Spectra.of(data, missing, n_axes=2)
        >>> second = Spectra.by_kept(data, missing, n_axes=2, notes=first.notes())
        >>> bool(np.abs(second.maps - first.maps).max() < 1e-9)
        True
        """
        if "components" not in notes:
            raise ValueError(
                "model: not learned from spectra in components; expected the model of a result for a signal "
                "like this one, or `.data` as the image"
            )
        mean, components, unit = (notes[name] for name in ("mean_spectrum", "components", "unit"))
        n_channels = int(np.prod(data.shape[n_axes:]))
        if n_channels != len(mean):
            raise ValueError(
                f"image: {n_channels} channels; expected {len(mean)}, as the spectra of the model have"
            )
        maps = _Lines(data, ~missing, n_axes).maps(mean, components, unit)
        return cls(maps, mean, components, unit, data.shape, np.dtype(data.dtype))

    def notes(self) -> dict[str, Array]:
        """Return what a model of the maps must remember, so that it can be used for other spectra."""
        return {"mean_spectrum": self.mean, "components": self.components, "unit": self.unit}

    def restored(
        self, maps: Array, data: Any = None, missing: Any = None, *, keep_observed: bool = False
    ) -> Any:
        """Return the spectra that maps stand for, in the type of the data; lazy if the data is.

        Parameters
        ----------
        maps : array
        data, missing, keep_observed
            With `keep_observed`, spectra of the data that are not missing stay as they are.
        """
        lazy = hasattr(data, "dask")
        values = self._times(maps, self.components, data) + self.mean.reshape(self.shape[maps.ndim - 1 :])
        if self.dtype.kind in "iu":
            limits = np.iinfo(self.dtype)
            values = values.round().clip(limits.min, limits.max)
        values = values.astype(self.dtype)
        if not keep_observed:
            return values
        hidden = missing.reshape(missing.shape + (1,) * (len(self.shape) - missing.ndim))
        return (_dask() if lazy else np).where(hidden, values, data)

    def deviation(
        self, std: Array, data: Any = None, missing: Any = None, *, keep_observed: bool = False
    ) -> Any:
        """Return the standard deviations of the spectra, given those of the maps, taken as independent.

        Parameters
        ----------
        std : array
        data, missing, keep_observed
            As in `restored`.
        """
        variance = self._times(std**2, self.components**2, data)
        found = (variance**0.5).astype(np.float64 if self.dtype == np.float64 else np.float32)
        if not keep_observed:
            return found
        return found * missing.reshape(missing.shape + (1,) * (len(self.shape) - missing.ndim))

    def _times(self, maps: Array, components: Array, data: Any) -> Any:
        """Return maps times components in the shape of the data, as a lazy array if the data is lazy."""
        channels = components.reshape(len(components), *self.shape[maps.ndim - 1 :])
        if not hasattr(data, "dask"):
            return np.tensordot(maps, channels, axes=1)
        dask, n_axes = _dask(), maps.ndim - 1
        lazy = dask.from_array(maps, chunks=(*data.chunks[:n_axes], maps.shape[-1]))
        pieces = dask.from_array(channels, chunks=(len(components), *data.chunks[n_axes:]))
        return dask.tensordot(lazy, pieces, axes=1)


def _dask() -> Any:
    return library("dask.array", "hyperspy")


class _Lines:
    """The spectra that are there, one line of the scan at a time."""

    def __init__(self, data: Any, there: NDArray[np.bool_], n_axes: int) -> None:
        self.data, self.there, self.n_axes = data, there, n_axes
        self.n = int(there.sum())
        if self.n < 2:
            raise ValueError(f"mask: {self.n} spectra are observed; expected at least two")

    def __iter__(self) -> Iterator[tuple[Any, Array]]:
        for line in np.ndindex(self.there.shape[:-1]):
            at = self.there[line]
            if at.any():
                spectra = np.asarray(self.data[line]).reshape(len(at), -1)[at].astype(np.float64)
                if not np.isfinite(spectra).all():
                    raise ValueError(f"image: not finite in line {line} of the scan; expected finite spectra")
                yield (*line, at), spectra

    def mean(self) -> Array:
        """Return the mean spectrum."""
        total = np.zeros(int(np.prod(self.data.shape[self.n_axes :])))
        for _, spectra in self:
            total += spectra.sum(axis=0)
        return total / self.n

    def maps(self, mean: Array, components: Array, unit: Array) -> Array:
        """Return the weights of components in all spectra; 0 where a spectrum is missing."""
        maps = np.zeros((*self.data.shape[: self.n_axes], len(components)))
        directions = (components / unit).T
        for at, spectra in self:
            maps[at] = ((spectra - mean) / unit) @ directions
        return maps

    def subspace(self, mean: Array, unit: Array) -> tuple[Array, Array, float]:
        """Return the leading directions of the spectra, the variance along each, and the variance of all."""
        n_channels = len(mean)
        size = min(MOST_COMPONENTS + MORE, n_channels, self.n)
        directions = np.linalg.qr(np.random.default_rng(0).normal(size=(n_channels, size)))[0]
        for last in [False] * (ITERATIONS - 1) + [True]:
            product, total = np.zeros_like(directions), 0.0
            for _, spectra in self:
                scaled = (spectra - mean) / unit
                product += scaled.T @ (scaled @ directions)
                total += float((scaled**2).sum())
            if last:
                values, vectors = np.linalg.eigh(directions.T @ product)
                order = np.argsort(-values)
                return directions @ vectors[:, order], values[order] / self.n, total / self.n
            directions = np.linalg.qr(product)[0]
        raise AssertionError


def _standing_out(variance: Array, total: float, n: int, n_channels: int) -> int:
    """Return how many components have more variance than any direction of white noise would have.

    The largest variance of white noise in n spectra is about (1 + sqrt(channels / n))^2 times its mean
    (Marchenko and Pastur, 1967). The noise is what the components so far leave over.

    Examples
    --------
    >>> _standing_out(np.array([50.0, 1.2, 1.1]), 50 + 39.0, 1000, 40)
    1
    """
    for k, found in enumerate(variance[:MOST_COMPONENTS]):
        noise = max(total - float(variance[: k + 1].sum()), 0.0) / max(n_channels - k - 1, 1)
        if found <= noise * (1 + np.sqrt(n_channels / n)) ** 2 or found <= 1e-12 * total:
            return max(1, k)
    return min(MOST_COMPONENTS, len(variance))
