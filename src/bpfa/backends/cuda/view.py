"""A view of the globals in the memory of a device, laid out as the kernels want it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bpfa.backends.cuda.products import products_of_rows
from bpfa.backends.cuda.rows import C_NAMES
from bpfa.backends.cuda.runtime import cupy_module, kernel, launch
from bpfa.model.view import GlobalView

__all__ = ["DeviceView", "blocks_of", "features_padded", "tile_numbers"]

# As in tiles.cuh.
TILE_FEATURES, TILE_STRIDE = 16, 17


def features_padded(K: int) -> int:
    """Return the number of features that the kernels see: whole groups of 64, as random words come."""
    return -(-K // 64) * 64


def tile_numbers(D: int) -> int:
    """Return the numbers in a tile of sixteen features."""
    return -(-(D + 1) * TILE_STRIDE // 4) * 4


def blocks_of(n: int, size: int = 256) -> int:
    """Return how many blocks of threads n elements take."""
    return -(-n // size)


@dataclass(frozen=True)
class DeviceView:
    """The globals as the kernels of the rows see them; of a `DevicePosterior`, or from a view on the host."""

    phi: Any
    """K x D, in double precision"""
    v: Any
    """K x D or K x 1, or None where it is zero"""
    logit: Any
    logit2: Any
    """To base 2, in the precision of the kernels, for the padded features"""
    precisions: Any
    """g_o and g_w"""
    tiles: Any
    v_tiles: Any
    rows: Any
    """phi in the precision of the kernels, padded to whole groups of features"""

    @classmethod
    def empty(cls, K: int, D: int, real: str, *, v: Any = None) -> DeviceView:
        """Return a view for a kernel to fill."""
        cupy, KP = cupy_module(), features_padded(K)
        # What no kernel writes must be zero: features that are not there.
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
        """Bring phi and v to where the kernels of the rows look for them."""
        K, D = self.phi.shape
        function = kernel("posterior.cu", "place_view", f"REAL={C_NAMES[self.real]}")
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
        """Number of columns, those that joint features add under the expected view included."""
        return int(self.phi.shape[1])

    @property
    def g_o(self) -> Any:
        """Noise precision, on the device."""
        return self.precisions[0]

    @property
    def v_rows(self) -> Any:
        """Variance of phi in the precision of the kernels, features padded x columns, or None."""
        if self.v is None:
            return None
        cupy, (K, D) = cupy_module(), self.phi.shape
        padded = cupy.zeros((features_padded(K), D), self.real)
        padded[:K] = self.v
        return padded

    @cached_property
    def gram(self) -> Any:
        """Products of the features, for complete rows: those of one lane after those of another."""
        cupy, KP = cupy_module(), len(self.rows)
        products = products_of_rows(self.rows, self.rows).reshape(KP, KP // TILE_FEATURES, TILE_FEATURES)
        return cupy.ascontiguousarray(products.swapaxes(1, 2))

    @cached_property
    def gram_of_fours(self) -> Any:
        """The same: of every lane four features after one another."""
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
