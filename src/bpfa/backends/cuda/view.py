"""A view of the globals in the memory of a device, in the layout that the kernels need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bpfa.backends.cuda.products import products_of_rows
from bpfa.backends.cuda.rows import C_TYPES
from bpfa.backends.cuda.runtime import cupy_module, kernel, launch
from bpfa.model.view import GlobalView

__all__ = ["DeviceView", "blocks_of", "features_padded", "tile_numbers"]

# As in tiles.cuh.
TILE_FEATURES, TILE_STRIDE = 16, 17


def features_padded(K: int) -> int:
    """Return the number of features rounded up to a multiple of 64, the group that random words serve."""
    return -(-K // 64) * 64


def tile_numbers(D: int) -> int:
    """Return how many numbers a tile of sixteen features has."""
    return -(-(D + 1) * TILE_STRIDE // 4) * 4


def blocks_of(n: int, size: int = 256) -> int:
    """Return how many blocks of `size` threads are needed for n elements."""
    return -(-n // size)


@dataclass(frozen=True)
class DeviceView:
    """A `GlobalView` on a device, made from a `DevicePosterior` or copied from the host."""

    phi: Any
    """K x D, in double precision."""
    v: Any
    """Variance of phi, K x D or K x 1, or None where it is zero."""
    logit: Any
    """Log odds, in double precision."""
    logit2: Any
    """Log odds to base 2, in the precision of the kernels, for the padded number of features."""
    precisions: Any
    """g_o and g_w."""
    tiles: Any
    """phi in tiles of sixteen features, as in tiles.cuh."""
    v_tiles: Any
    """v in the same tiles, or None where it is zero."""
    rows: Any
    """phi in the precision of the kernels, padded features x columns."""

    @classmethod
    def empty(cls, K: int, D: int, real: str, *, v: Any = None) -> DeviceView:
        """Return a view for a kernel to fill."""
        cupy, KP = cupy_module(), features_padded(K)
        # No kernel writes to the features that only pad the last group, so they must be zero from the start.
        new = cupy.empty if K == KP else cupy.zeros
        tiles_shape = (-(-K // TILE_FEATURES), tile_numbers(D))
        return cls(
            phi=cupy.empty((K, D)),
            v=v,
            logit=cupy.empty(K),
            logit2=cupy.empty(KP, real),
            precisions=cupy.empty(2),
            tiles=new(tiles_shape, real),
            v_tiles=None if v is None else cupy.zeros(tiles_shape, real),
            rows=new((KP, D), real),
        )

    @classmethod
    def of(cls, view: GlobalView, real: str) -> DeviceView:
        """Copy a view to the device."""
        cupy, (K, D) = cupy_module(), view.phi.shape
        v = np.ascontiguousarray(view.v, np.float64)
        filled = cls.empty(K, D, real, v=cupy.asarray(v) if v.any() else None)
        filled.phi.set(np.ascontiguousarray(view.phi, np.float64))
        filled.logit.set(np.ascontiguousarray(view.logit, np.float64))
        filled.precisions.set(np.array([view.g_o, view.g_w]))
        logit2 = np.full(features_padded(K), -1e30)
        logit2[:K] = view.logit / np.log(2)
        filled.logit2.set(logit2.astype(real))
        filled.place()
        return filled

    def place(self) -> None:
        """Copy phi and v into the tiles and rows that the kernels read."""
        K, D = self.phi.shape
        function = kernel("posterior.cu", "place_view", f"REAL={C_TYPES[self.real]}")
        launch(
            function, blocks_of(K * D), 256, self.phi, self.v, 1 if self.v is None else self.v.shape[1], K, D,
            self.tiles, self.rows, self.v_tiles,
        )  # fmt: skip

    @cached_property
    def real(self) -> str:
        """Precision of the kernels, "float32" or "float64"."""
        name: str = self.rows.dtype.name
        return name

    @property
    def n_features(self) -> int:
        """Number of features K."""
        return len(self.phi)

    @property
    def n_columns(self) -> int:
        """Number of columns, including those that an expected view of joint features adds."""
        return int(self.phi.shape[1])

    @property
    def g_o(self) -> Any:
        """Noise precision, on the device."""
        return self.precisions[0]

    @property
    def v_rows(self) -> Any:
        """V in the precision of the kernels, padded features x columns, or None where it is zero."""
        if self.v is None:
            return None
        cupy, (K, D) = cupy_module(), self.phi.shape
        padded = cupy.zeros((features_padded(K), D), self.real)
        padded[:K] = self.v
        return padded

    @cached_property
    def gram(self) -> Any:
        """Products of the features, for complete rows, in the order of gibbs.cu: lane by lane."""
        cupy, KP = cupy_module(), len(self.rows)
        products = products_of_rows(self.rows, self.rows).reshape(KP, KP // TILE_FEATURES, TILE_FEATURES)
        return cupy.ascontiguousarray(products.swapaxes(1, 2))

    @cached_property
    def gram_of_fours(self) -> Any:
        """Products of the features in the order of gibbs_rows.cu: four features of every lane at a time."""
        cupy, KP = cupy_module(), len(self.rows)
        products = products_of_rows(self.rows, self.rows).reshape(KP, KP // 64, 4, TILE_FEATURES)
        return cupy.ascontiguousarray(products.swapaxes(2, 3))

    @cached_property
    def phi2_all(self) -> Any:
        """Sum over all columns of phi^2."""
        return (self.rows**2).sum(axis=1)

    @cached_property
    def s_all(self) -> Any:
        """Sum over all columns of phi^2 + v."""
        return self.phi2_all if self.v is None else self.phi2_all + self.v_rows.sum(axis=1)

    def host(self) -> GlobalView:
        """Copy the view to the host."""
        K, precisions = self.n_features, self.precisions.get()
        return GlobalView(
            self.phi.get(),
            np.zeros((K, 1)) if self.v is None else self.v.get(),
            self.logit.get(),
            float(precisions[0]),
            float(precisions[1]),
        )
